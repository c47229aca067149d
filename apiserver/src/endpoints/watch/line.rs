//! The lines of a watch: events, and the error at the end.

use bytes::Bytes;
use serde_json::Value;

use crate::endpoints::negotiation::MediaType;
use crate::schema::{protobuf, write_answer};
use crate::status::{ApiError, Cause};
use crate::storage::{WindowError, watch_frame};

/// The line or frame of an event; `None` for an object that protobuf has no message for.
pub(super) fn frame(event_type: &str, object: &Value, media: MediaType) -> Option<Bytes> {
    if media == MediaType::Protobuf {
        let document = protobuf::encode(object)?.bytes();
        return Some(protobuf::watch_frame(event_type, &document));
    }
    let mut json = Vec::with_capacity(512);
    write_answer(&mut json, object);
    Some(watch_frame(event_type, &json))
}

/// The error for a version `rv` that the window cannot serve.
pub(crate) fn expired(rv: u64, error: WindowError) -> ApiError {
    match error {
        WindowError::Expired { compacted } => {
            ApiError::Expired(format!("too old resource version: {rv} ({compacted})"))
        }
        WindowError::Future { current } => ApiError::Timeout {
            message: format!("Too large resource version: {rv}, current: {current}"),
            retry_after_seconds: 1,
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            }],
        },
    }
}
