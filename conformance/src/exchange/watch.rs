//! Watches in the background of a case.

use std::time::Duration;

use bytes::BytesMut;
use http::StatusCode;
use http_body_util::BodyExt;
use kubeproof_machinery::json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::error::TransportError;
use super::http1::AnswerBody;
use super::text::decoded;
use super::transport::{Call, Target};

/// A watch that delivers nothing for this long has ended.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// After the events asked for, one too many gets this long to show up.
const SURPLUS_WAIT: Duration = Duration::from_millis(150);

/// A running watch; dropping it ends it.
#[derive(Debug)]
pub(super) struct Watch {
    status: StatusCode,
    delivered: watch::Receiver<Delivered>,
    _reader: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Delivered {
    events: Vec<Value>,
    ended: bool,
}

impl Watch {
    /// Sends the request and begins to read in the background.
    pub(super) async fn start(target: &Target, call: Call) -> Result<Self, TransportError> {
        let answer = target.send(call).await?;
        let status = answer.status();
        let (sender, delivered) = watch::channel(Delivered::default());
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            read(status, answer.into_body(), &sender).await;
            sender.send_modify(|delivered| delivered.ended = true);
        });
        Ok(Self {
            status,
            delivered,
            _reader: reader,
        })
    }

    /// The answer's status.
    pub(super) fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// All events since the watch began, once there are `events_max` of them, or it has ended, or
    /// `wait` is over.
    pub(super) async fn collect(
        &mut self,
        events_max: Option<usize>,
        wait: Duration,
    ) -> Vec<Value> {
        let count = events_max.unwrap_or(usize::MAX);
        let enough = self
            .delivered
            .wait_for(|delivered| delivered.ended || delivered.events.len() >= count);
        // However the waiting ends, what there is counts.
        drop(timeout(wait, enough).await);
        if events_max.is_some() {
            sleep(SURPLUS_WAIT).await;
        }
        self.delivered.borrow().events.clone()
    }
}

/// Hands each line to `sender`; an answer that is not a stream is handed over whole.
async fn read(status: StatusCode, mut body: AnswerBody, sender: &watch::Sender<Delivered>) {
    let mut buffer = BytesMut::new();
    while let Ok(Some(Ok(frame))) = timeout(IDLE_MAX, body.frame()).await {
        if let Some(data) = frame.data_ref() {
            buffer.extend_from_slice(data);
        }
        while status == StatusCode::OK
            && let Some(end) = buffer.iter().position(|byte| *byte == b'\n')
        {
            deliver(&buffer.split_to(end + 1), sender);
        }
    }
    deliver(&buffer, sender);
}

fn deliver(line: &[u8], sender: &watch::Sender<Delivered>) {
    if !line.trim_ascii().is_empty() {
        sender.send_modify(|delivered| delivered.events.push(decoded(line)));
    }
}
