//! The `timeout` of a request: how long it may take.

use std::time::Duration;

use crate::request::options::Query;
use crate::schema::duration;
use crate::status::ApiError;

/// Upstream's `--request-timeout`: no request that is answered at once may take longer.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The time that a request has, from its `timeout` parameter; none and too much mean the maximum.
///
/// # Errors
/// `BadRequest` for a text that Go cannot parse as a duration.
pub(crate) fn request_timeout(query: &Query) -> Result<Duration, ApiError> {
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
        Ok(nanos) if nanos > 0 => Duration::from_nanos(nanos).min(REQUEST_TIMEOUT),
        _ => REQUEST_TIMEOUT,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_at_most_a_minute() {
        let timeout = |query: &str| request_timeout(&Query::parse(query)).unwrap().as_secs();
        assert_eq!(timeout("timeout=10s"), 10);
        for query in ["", "timeout=", "timeout=0s", "timeout=-5s", "timeout=10m"] {
            assert_eq!(timeout(query), 60, "{query}");
        }
        let error = request_timeout(&Query::parse("timeout=x")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid timeout specified in the request URL - time: invalid duration \"x\""
        );
    }
}
