//! Failures in kubectl's words. All end with exit code 1.
//!
//! Source: kubectl `pkg/cmd/util/helpers.go` for the words, client-go `rest/request.go` for responses without a Status.

use std::collections::BTreeSet;
use std::error::Error;

use kube::core::Status;

/// The lines of a failed command, for standard error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure(pub(super) String);

impl Failure {
    /// Returns a failure that kubectl itself finds, so its line begins with `error:`.
    pub(super) fn error(text: impl std::fmt::Display) -> Self {
        Self(format!("error: {text}"))
    }

    /// Joins several failures, a line each.
    pub(super) fn all(failures: impl IntoIterator<Item = Self>) -> Result<(), Self> {
        let lines: Vec<String> = failures.into_iter().map(|failure| failure.0).collect();
        match lines.is_empty() {
            true => Ok(()),
            false => Err(Self(lines.join("\n"))),
        }
    }
}

/// A request without a useful response.
#[derive(Debug)]
pub(super) enum Refused {
    /// The server's answer.
    Status(Box<Status>),
    /// No answer.
    Unanswered(Failure),
}

impl Refused {
    /// Reads the body of a failed response. `verb` and the body's text replace a missing Status.
    pub(super) fn of(code: u16, body: &[u8]) -> Self {
        let is_status = |status: &Status| !status.message.is_empty() || !status.reason.is_empty();
        let status = serde_json::from_slice::<Status>(body).ok();
        let status = status.filter(is_status);
        Self::Status(Box::new(status.unwrap_or_else(|| generic(code, body))))
    }

    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Status(status) if status.reason == "NotFound")
    }

    /// Returns the failure of a request that was made for an object of `source`, which the message names.
    pub(super) fn when(mut self, action: &str, source: &str) -> Failure {
        if let Self::Status(status) = &mut self {
            status.message = format!("error when {action} {source:?}: {}", status.message);
        }
        self.into()
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let status = match refused {
            Refused::Status(status) => status,
            Refused::Unanswered(failure) => return failure,
        };
        match status.reason.as_str() {
            "Invalid" => Self(invalid(&status)),
            "Unauthorized" => Self::error(format_args!(
                "You must be logged in to the server ({})",
                status.message
            )),
            "" | "Unknown" => Self(format!("Error from server: {}", status.message)),
            reason => Self(format!("Error from server ({reason}): {}", status.message)),
        }
    }
}

/// Lists the causes of a refused object, each once.
fn invalid(status: &Status) -> String {
    let Some(details) = &status.details else {
        return "The request is invalid".to_owned();
    };
    let subject = format!("The {} {:?} is invalid", details.kind, details.name);
    let mut known = BTreeSet::new();
    let mut causes = Vec::new();
    for cause in &details.causes {
        let line = format!("{}: {}", cause.field, cause.message);
        if known.insert(line.clone()) {
            causes.push(line);
        }
    }
    match &causes[..] {
        [] => subject,
        [cause] => format!("{subject}: {cause}"),
        causes => format!("{subject}: \n* {}", causes.join("\n* ")),
    }
}

/// Makes a Status of a response that has none.
fn generic(code: u16, body: &[u8]) -> Status {
    let text = String::from_utf8_lossy(body);
    let (reason, message) = match code {
        401 => (
            "Unauthorized",
            "the server has asked for the client to provide credentials".to_owned(),
        ),
        403 => ("Forbidden", text.trim().to_owned()),
        404 => (
            "NotFound",
            "the server could not find the requested resource".to_owned(),
        ),
        405 => (
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource".to_owned(),
        ),
        406 => ("NotAcceptable", text.trim().to_owned()),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later"
                .to_owned(),
        ),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request".to_owned(),
        ),
        500.. => (
            "InternalError",
            format!(
                "an error on the server ({:?}) has prevented the request from succeeding",
                text.trim()
            ),
        ),
        _ => ("", text.trim().to_owned()),
    };
    Status {
        code,
        reason: reason.to_owned(),
        message,
        ..Status::default()
    }
}

/// Describes a request that `host` did not answer.
pub(super) fn unanswered(host: &str, error: &(dyn Error + 'static)) -> Failure {
    let mut causes = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(error) = cause.downcast_ref::<std::io::Error>()
            && error.kind() == std::io::ErrorKind::ConnectionRefused
        {
            return Failure(format!(
                "The connection to the server {host} was refused - did you specify the right host or port?"
            ));
        }
        causes.push(cause.to_string());
        next = cause.source();
    }
    let why = match causes.iter().any(|cause| cause.contains("UnknownIssuer")) {
        true => "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        false => causes.last().map_or("", String::as_str),
    };
    Failure(format!("Unable to connect to the server: {why}"))
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    fn line(code: u16, body: &str) -> String {
        Failure::from(Refused::of(code, body.as_bytes())).0
    }

    #[test]
    fn a_status_is_shown_with_its_reason() {
        let status = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404,
            "message": "namespaces \"x\" not found"});
        let refused = Refused::of(404, status.to_string().as_bytes());
        assert!(refused.is_not_found());
        assert_eq!(
            Failure::from(refused).0,
            "Error from server (NotFound): namespaces \"x\" not found"
        );
        let refused = Refused::of(404, status.to_string().as_bytes());
        let failure = refused.when("retrieving", "a.yaml");
        assert!(
            failure
                .0
                .contains("error when retrieving \"a.yaml\": namespaces"),
            "{}",
            failure.0
        );
    }

    #[test]
    fn causes_of_an_invalid_object_are_listed_once() {
        let mut status = json!({"reason": "Invalid", "details": {"kind": "ConfigMap", "name": "A", "causes": [
            {"field": "metadata.name", "message": "bad"}, {"field": "metadata.name", "message": "bad"}]}});
        assert_eq!(
            line(422, &status.to_string()),
            "The ConfigMap \"A\" is invalid: metadata.name: bad"
        );
        status["details"]["causes"][1]["message"] = "worse".into();
        assert_eq!(
            line(422, &status.to_string()),
            "The ConfigMap \"A\" is invalid: \n* metadata.name: bad\n* metadata.name: worse"
        );
    }

    #[test]
    fn responses_without_a_status_are_named_by_their_code() {
        assert_eq!(
            line(404, "404 page not found"),
            "Error from server (NotFound): the server could not find the requested resource"
        );
        assert_eq!(
            line(500, "[-]ping failed\n"),
            "Error from server (InternalError): an error on the server (\"[-]ping failed\") has prevented the request from succeeding"
        );
        assert_eq!(
            line(401, ""),
            "error: You must be logged in to the server (the server has asked for the client to provide credentials)"
        );
    }
}
