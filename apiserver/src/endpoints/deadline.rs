//! The `timeout` of a request: how long it may take.

use std::time::Duration;

use crate::request::options::Query;
use crate::schema::duration;
use crate::status::ApiError;

/// How long requests may take.
#[derive(Clone, Copy, Debug)]
pub struct RequestTimeouts {
    /// The longest time for a request other than a watch, as `--request-timeout`. At zero every request times out.
    pub request: Duration,
    /// The shortest duration of a watch without `timeoutSeconds`, as `--min-request-timeout`; the longest is twice
    /// that. At zero such a watch has no end.
    pub min_watch: Duration,
}

impl RequestTimeouts {
    /// A minute, and half an hour: upstream's defaults.
    pub const DEFAULT: Self = Self {
        request: Duration::from_secs(60),
        min_watch: Duration::from_secs(30 * 60),
    };
}

/// The time that a request has, from its `timeout` parameter; none and too much mean `most`.
///
/// # Errors
/// `BadRequest` for a text that Go cannot parse as a duration.
pub(crate) fn request_timeout(query: &Query, most: Duration) -> Result<Duration, ApiError> {
    let asked = match query.get("timeout").unwrap_or_default() {
        "" => Ok(0),
        text => duration::nanoseconds(text),
    };
    let nanos = asked.map_err(|why| {
        ApiError::BadRequest(format!(
            "invalid timeout specified in the request URL - {why}"
        ))
    })?;
    Ok(match u64::try_from(nanos) {
        Ok(nanos) if nanos > 0 => Duration::from_nanos(nanos).min(most),
        _ => most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_at_most_a_minute() {
        let most = RequestTimeouts::DEFAULT.request;
        let timeout = |query: &str| {
            let query = Query::parse(query);
            request_timeout(&query, most).unwrap().as_secs()
        };
        assert_eq!(timeout("timeout=10s"), 10);
        for query in ["", "timeout=", "timeout=0s", "timeout=-5s", "timeout=10m"] {
            assert_eq!(timeout(query), 60, "{query}");
        }
        let error = request_timeout(&Query::parse("timeout=x"), most).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid timeout specified in the request URL - time: invalid duration \"x\""
        );
    }
}
