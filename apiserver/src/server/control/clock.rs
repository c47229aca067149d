//! The clock: set by a jump, or moved on by time that passes.

use std::time::Duration;

use jiff::SignedDuration;

use super::super::ApiServer;
use crate::clock::PassesByItself;
use crate::json::Value;
use crate::request::options::pairs;
use crate::status::{ApiError, Status};

/// The longest time that passes in one request: ten years. An `Instant` takes some more.
const ADVANCE_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl ApiServer {
    /// Lets `time` pass at once, and waits until all that happens in it has happened: timers of nodes, controllers and programs
    /// fire in their order. The server needs virtual time for it, as `kubeproof serve --virtual-time` has.
    ///
    /// # Errors
    /// [`PassesByItself`] if its time is real, or is that of a test.
    pub async fn advance(&self, time: Duration) -> Result<(), PassesByItself> {
        self.core.clock.advance(time).await
    }

    /// Answers a request for [`Self::advance`].
    pub(in crate::server) async fn answer_advance(&self, query: &str) -> Result<Value, ApiError> {
        let query: Vec<(String, String)> = pairs(query).collect();
        let time = advance(&query)?;
        self.advance(time).await.map_err(|error| {
            ApiError::BadRequest(format!(
                "{error}; kubeproof serve --virtual-time has time that advances, and ?jump=10m sets any clock"
            ))
        })?;
        Ok(Status::success().to_value())
    }
}

/// Reads the time by which the clock is to be set forward.
///
/// # Errors
/// [`ApiError::BadRequest`] if it is missing, or no duration.
pub(super) fn jump(text: Option<&str>) -> Result<SignedDuration, ApiError> {
    let text = text.unwrap_or_default();
    duration("jump", text, "10m or -1h")
}

/// Reads the time that is to pass.
fn advance(query: &[(String, String)]) -> Result<Duration, ApiError> {
    let mut times = query.iter().filter(|(key, _)| key == "advance");
    let text = times.next().map_or("", |(_, text)| text);
    if times.next().is_some() || query.iter().any(|(key, _)| key == "jump") {
        return Err(ApiError::BadRequest(
            "advance: one time is expected, without jump".to_owned(),
        ));
    }
    let time = duration("advance", text, "10m or 10h")?;
    match Duration::try_from(time) {
        Ok(time) if time <= ADVANCE_MAX => Ok(time),
        Ok(_) => Err(ApiError::BadRequest(format!(
            "advance: {text:?} is longer than ten years"
        ))),
        Err(_) => Err(ApiError::BadRequest(format!(
            "advance: {text:?} is negative; jump sets the clock back"
        ))),
    }
}

fn duration(name: &str, text: &str, examples: &str) -> Result<SignedDuration, ApiError> {
    text.parse().map_err(|_| {
        ApiError::BadRequest(format!(
            "{name}: {text:?} is not a duration, such as {examples}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_time_that_is_not_negative_passes() {
        let read = |query: &str| {
            let query: Vec<(String, String)> = pairs(query).collect();
            advance(&query).map_err(|error| error.to_string())
        };
        assert_eq!(read("advance=10h"), Ok(Duration::from_secs(36_000)));
        assert_eq!(read("advance=0s"), Ok(Duration::ZERO));
        for (query, message) in [
            (
                "advance=soon",
                "advance: \"soon\" is not a duration, such as 10m or 10h",
            ),
            (
                "advance=-1h",
                "advance: \"-1h\" is negative; jump sets the clock back",
            ),
            (
                "advance=87601h",
                "advance: \"87601h\" is longer than ten years",
            ),
            (
                "advance=1h&jump=1h",
                "advance: one time is expected, without jump",
            ),
        ] {
            assert_eq!(read(query), Err(message.to_owned()), "{query}");
        }
    }
}
