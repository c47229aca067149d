//! A process and its client: the streams of `exec` and `attach`.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::endpoints::streams::Output;
use crate::endpoints::streams::channels::Channels;
use crate::endpoints::streams::multiplexed::{self, Reader, Streams, Writer};
use crate::endpoints::streams::upgrade::{Protocol, StatusForm};
use crate::json::{Value, json};
use crate::kubelet::{ContainerStreams, OutputStream};
use crate::status::{ApiError, Status};

/// Upstream's `DefaultStreamCreationTimeout`: how long a client may take to open its streams.
const OPENING_TIME_MAX: Duration = Duration::from_secs(30);

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;

/// A process, and the streams that the client wants of it.
pub(super) struct Session {
    pub(super) streams: ContainerStreams,
    pub(super) wanted: Wanted,
    pub(super) protocol: Protocol,
    pub(super) command: Vec<String>,
}

/// The streams that the client asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    /// Whether the process has a terminal, whose output is a single stream.
    pub(super) terminal: bool,
}

/// The client's ends of the streams.
#[derive(Default)]
struct Ends {
    stdin: Option<mpsc::Receiver<Bytes>>,
    stdout: Option<Output>,
    stderr: Option<Output>,
    error: Option<Output>,
}

impl Session {
    /// Streams over the channels of a WebSocket.
    pub(super) async fn over_channels<S>(self, connection: S)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Wanted {
            stdin,
            stdout,
            stderr,
            ..
        } = self.wanted;
        let mut channels = Channels::new(self.protocol.coding());
        let ends = Ends {
            stdin: stdin.then(|| channels.input(STDIN)),
            stdout: stdout.then(|| channels.output(STDOUT)),
            stderr: stderr.then(|| channels.output(STDERR)),
            error: Some(channels.output(ERROR)),
        };
        let work = async {
            // An empty message says to the client that the streams are open.
            let lowest = [&ends.stdout, &ends.stderr, &ends.error];
            if let Some(lowest) = lowest.into_iter().flatten().next() {
                lowest.write(Bytes::new()).await;
            }
            self.run(ends).await;
        };
        channels.serve(connection, work).await;
    }

    /// Streams that the client opens over SPDY.
    pub(super) async fn over_streams<S>(self, reader: Reader<S>, writer: Writer<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let work = async |mut streams: Streams| {
            let opening = open(self.wanted, self.protocol, &mut streams);
            let opened = timeout(OPENING_TIME_MAX, opening).await;
            let Ok(Some((ends, outputs))) = opened else {
                return;
            };
            let idle = async {
                while let Some(another) = streams.next().await {
                    another.output.reset().await;
                }
            };
            tokio::select! {
                biased;
                () = self.run(ends) => {}
                () = idle => return,
            }
            for output in outputs {
                output.end().await;
            }
        };
        multiplexed::serve(reader, writer, work).await;
    }

    /// Passes bytes on in both directions until the process has ended, and reports its end.
    async fn run(self, ends: Ends) {
        let Self {
            streams,
            wanted,
            protocol,
            command,
        } = self;
        let ContainerStreams {
            mut output,
            input,
            ended,
        } = streams;
        let Ends {
            stdin,
            stdout,
            stderr,
            error,
            ..
        } = ends;
        let feeding = async {
            let (Some(input), Some(mut stdin)) = (input, stdin) else {
                return;
            };
            while let Some(bytes) = stdin.recv().await {
                if input.send(bytes).await.is_err() {
                    return;
                }
            }
        };
        let showing = async {
            while let Some((stream, bytes)) = output.next().await {
                let end = match stream {
                    OutputStream::Stderr if !wanted.terminal => &stderr,
                    OutputStream::Stdout | OutputStream::Stderr => &stdout,
                };
                if let Some(end) = end.as_ref().filter(|_| !bytes.is_empty()) {
                    end.write(bytes).await;
                }
            }
        };
        let ended = async { tokio::join!(showing, ended).1 };
        let (mut feeding, mut ended) = (std::pin::pin!(feeding), std::pin::pin!(ended));
        let end = tokio::select! {
            biased;
            end = &mut ended => end,
            () = &mut feeding => ended.await,
        };
        if let (Some(text), Some(error)) = (status_text(&end, protocol.status, &command), error) {
            error.write(text.into()).await;
        }
    }
}

/// Accepts streams until the client has opened all that it wants: its ends of them, and all that are
/// to be ended with the process.
async fn open(
    wanted: Wanted,
    protocol: Protocol,
    streams: &mut Streams,
) -> Option<(Ends, Vec<Output>)> {
    let Wanted {
        stdin,
        stdout,
        stderr,
        terminal,
    } = wanted;
    let resizes = matches!(protocol.name, "v4.channel.k8s.io" | "v3.channel.k8s.io");
    let needed = [true, stdin, stdout, stderr, terminal && resizes];
    let mut missing = needed.into_iter().filter(|needed| *needed).count();
    let (mut ends, mut outputs) = (Ends::default(), Vec::new());
    while missing > 0 {
        let opened = streams.next().await?;
        opened.output.accept().await;
        outputs.push(opened.output.clone());
        missing -= 1;
        match opened.headers.get("streamtype") {
            "error" => ends.error = Some(opened.output),
            "stdin" => ends.stdin = Some(opened.input),
            "stdout" => ends.stdout = Some(opened.output),
            "stderr" => ends.stderr = Some(opened.output),
            // The sizes of a terminal say nothing here.
            "resize" => {}
            _ => missing += 1,
        }
    }
    Some((ends, outputs))
}

/// The text of the error stream after the end of a process; `None` for a success in plain text.
fn status_text(end: &Result<i32, String>, form: StatusForm, command: &[String]) -> Option<String> {
    let status = status(end, form, command);
    match form {
        StatusForm::V4 | StatusForm::V5 => Some(status.to_string()),
        StatusForm::Text => status["message"].as_str().map(str::to_owned),
    }
}

fn status(end: &Result<i32, String>, form: StatusForm, command: &[String]) -> Value {
    match end {
        Ok(0) => Status::success().to_untyped_value(),
        Ok(code) => {
            // The server speaks version 5 itself and has the code alone; the kubelet says more.
            let why = match form {
                StatusForm::V4 | StatusForm::Text => format!(
                    "error executing command [{}], exit code {code}",
                    command.join(" ")
                ),
                StatusForm::V5 => format!("command terminated with exit code {code}"),
            };
            let message = format!("command terminated with non-zero exit code: {why}");
            let cause = json!({ "reason": "ExitCode", "message": code.to_string() });
            Status::failure(0, "NonZeroExitCode", message)
                .with_details(json!({ "causes": [cause] }))
                .to_untyped_value()
        }
        Err(why) => ApiError::Internal(why.clone()).to_status(),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::endpoints::streams::peer::Peer;
    use crate::endpoints::streams::upgrade::REMOTE_COMMAND;

    /// A process that repeats its input on both streams, and ends with it and the code 3.
    fn session(protocol: &str, terminal: bool) -> Session {
        let (input, typed) = mpsc::channel::<Bytes>(1);
        let (ending, ended) = tokio::sync::oneshot::channel::<()>();
        let output = futures::stream::unfold((typed, ending), |(mut typed, ending)| async {
            let bytes = typed.recv().await?;
            let both = [OutputStream::Stdout, OutputStream::Stderr];
            let both = both.map(|stream| (stream, bytes.clone()));
            Some((futures::stream::iter(both), (typed, ending)))
        });
        Session {
            streams: ContainerStreams {
                output: output.flatten().boxed(),
                input: Some(input),
                ended: ended.map(|_| Ok(3)).boxed(),
            },
            wanted: Wanted {
                stdin: true,
                stdout: true,
                stderr: !terminal,
                terminal,
            },
            protocol: REMOTE_COMMAND.stream(protocol).unwrap(),
            command: vec!["a".to_owned()],
        }
    }

    /// The bytes that a client reads from each of these streams after it has typed a line.
    async fn run(session: Session, types: &[&str]) -> Vec<String> {
        let (mut peer, reader, writer) = Peer::connect();
        let client = async {
            let mut typing = 0;
            for (number, kind) in (1..).step_by(2).zip(types) {
                peer.open(number, &[("streamType", kind)]).await;
                if *kind == "stdin" {
                    typing = number;
                }
            }
            peer.write(typing, "hi").await;
            peer.write(typing, "").await;
            let mut all = Vec::new();
            for number in (1..).step_by(2).take(types.len()) {
                let (text, was_reset) = peer.read(number).await;
                assert!(!was_reset);
                all.push(text);
            }
            all
        };
        tokio::join!(session.over_streams(reader, writer), client).1
    }

    #[tokio::test]
    async fn a_process_is_streamed_over_spdy() {
        let message =
            "command terminated with non-zero exit code: error executing command [a], exit code 3";
        let types = ["error", "stdin", "stdout", "stderr"];
        let read = run(session("v4.channel.k8s.io", false), &types).await;
        assert_eq!(read[1..], ["", "hi", "hi"]);
        let status: Value = serde_json::from_str(&read[0]).unwrap();
        assert_eq!(
            (&status["reason"], &status["message"]),
            (&json!("NonZeroExitCode"), &json!(message))
        );
        let read = run(session("v2.channel.k8s.io", false), &types).await;
        assert_eq!(read, [message, "", "hi", "hi"]);
        // A terminal has a single output stream, and a size.
        let types = ["resize", "error", "stdin", "stdout"];
        let read = run(session("v3.channel.k8s.io", true), &types).await;
        assert_eq!(read, ["", message, "", "hihi"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_open_its_streams_is_not_waited_for() {
        let (mut peer, reader, writer) = Peer::connect();
        let client = async {
            peer.open(1, &[("streamType", "error")]).await;
            while peer.next().await.is_some() {}
        };
        let session = session("v4.channel.k8s.io", false);
        tokio::join!(session.over_streams(reader, writer), client);
    }

    #[test]
    fn the_end_of_a_process_is_a_status_or_its_message() {
        let command = ["sh".to_owned(), "x".to_owned()];
        let success = status(&Ok(0), StatusForm::V5, &command);
        assert_eq!(success, json!({"metadata": {}, "status": "Success"}));
        let v4 = status(&Ok(3), StatusForm::V4, &command);
        let message = "command terminated with non-zero exit code: \
                       error executing command [sh x], exit code 3";
        assert_eq!(v4["message"], message);
        assert_eq!(v4["details"]["causes"][0]["message"], "3");
        let text = |end| status_text(&end, StatusForm::Text, &command);
        assert_eq!(text(Ok(3)).as_deref(), Some(message));
        assert_eq!(text(Ok(0)), None);
        let lost = status(&Err("why".to_owned()), StatusForm::V5, &command);
        assert_eq!(lost["reason"], "InternalError");
    }
}
