//! The ports of a pod and their client: the streams of `portforward`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, join_all};
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::endpoints::streams::Output;
use crate::endpoints::streams::channels::{Channels, Coding};
use crate::endpoints::streams::multiplexed::{self, Opened, Reader, Streams, Writer};
use crate::kubelet::{PodPorts, PortConnection};

/// A port has two channels, and a channel a byte.
pub(super) const CHANNEL_PORTS_MAX: usize = 127;

const READ_BYTES: usize = 16 * 1024;

/// Forwards `ports` over the channels of a WebSocket, two for each: for its data and its errors.
pub(super) async fn over_channels<S>(connection: S, coding: Coding, pod: PodPorts, ports: Vec<u16>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut channels = Channels::new(coding);
    let forwards = ports.into_iter().zip((0..=u8::MAX).step_by(2));
    let forwards: Vec<_> = forwards
        .map(|(port, channel)| {
            let input = channels.input(channel);
            let (data, error) = (channels.output(channel), channels.output(channel + 1));
            (port, input, data, error)
        })
        .collect();
    let work = async {
        let mut running = Vec::new();
        for (port, input, data, error) in forwards {
            // The first message of a channel says which port it is for.
            let number = Bytes::copy_from_slice(&port.to_le_bytes());
            data.write(number.clone()).await;
            error.write(number).await;
            let pod = &pod;
            running.push(async move {
                if let Err(why) = forward(pod, port, input, &data).await {
                    error.write(why.into()).await;
                }
            });
        }
        join_all(running).await;
    };
    channels.serve(connection, work).await;
}

/// Forwards the ports that the client opens streams for over SPDY.
pub(super) async fn over_streams<S>(reader: Reader<S>, writer: Writer<S>, pod: PodPorts)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    multiplexed::serve(reader, writer, |streams| serve(streams, pod)).await;
}

async fn serve(mut streams: Streams, pod: PodPorts) {
    let mut pairs = Pairs::default();
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(()) = running.next() => {}
            opened = streams.next() => {
                let Some(opened) = opened else {
                    return;
                };
                if let Some(pair) = pairs.take_in(opened).await {
                    running.push(pair.run(&pod));
                }
            }
        }
    }
}

/// Pairs whose other stream has not been opened yet, by the id of their request.
#[derive(Default)]
struct Pairs(BTreeMap<String, Half>);

enum Half {
    Data(Opened),
    Error(Opened),
}

/// The two streams of a connection to a port.
struct Pair {
    port: u16,
    data: Opened,
    error: Opened,
}

impl Pairs {
    /// Accepts a stream, unless it is malformed; the pair that it completes.
    async fn take_in(&mut self, opened: Opened) -> Option<Pair> {
        let port = opened.headers.get("port").parse().unwrap_or(0_u16);
        let is_data = match opened.headers.get("streamtype") {
            "data" => true,
            "error" => false,
            _ => {
                opened.output.reset().await;
                return None;
            }
        };
        if port == 0 {
            opened.output.reset().await;
            return None;
        }
        opened.output.accept().await;
        let id = request_id(&opened, is_data);
        let (data, error) = match (self.0.remove(&id), is_data) {
            (Some(Half::Error(error)), true) => (opened, error),
            (Some(Half::Data(data)), false) => (data, opened),
            (None, _) => {
                let half = if is_data { Half::Data } else { Half::Error };
                self.0.insert(id, half(opened));
                return None;
            }
            (Some(half), _) => {
                let kind = if is_data { "data" } else { "error" };
                if let Half::Error(first) = &half {
                    let why = format!(
                        "error processing stream for request {id}: {kind} stream already assigned"
                    );
                    first.output.write(why.into()).await;
                }
                self.0.insert(id, half);
                return None;
            }
        };
        let port = data.headers.get("port").parse().unwrap_or(port);
        Some(Pair { port, data, error })
    }
}

/// The id that the streams of a pair share. Old clients send no id, but open the data stream right
/// after the error stream.
fn request_id(opened: &Opened, is_data: bool) -> String {
    match opened.headers.get("requestid") {
        "" if is_data => (i64::from(opened.stream) - 2).to_string(),
        "" => opened.stream.to_string(),
        id => id.to_owned(),
    }
}

impl Pair {
    /// Forwards until one side has ended, or the client resets the data.
    fn run(self, pod: &PodPorts) -> BoxFuture<'_, ()> {
        async move {
            let Self { port, data, error } = self;
            let Opened {
                input,
                output,
                reset,
                ..
            } = data;
            let forwarded = tokio::select! {
                biased;
                Ok(()) = reset => return,
                forwarded = forward(pod, port, input, &output) => forwarded,
            };
            match forwarded {
                Ok(()) => {
                    output.end().await;
                    error.output.end().await;
                }
                Err(why) => {
                    error.output.write(why.into()).await;
                    // A client makes new streams after a failure.
                    output.reset().await;
                    error.output.reset().await;
                }
            }
        }
        .boxed()
    }
}

/// Connects to a port and passes on the bytes of both sides, until the port's side has ended;
/// returns errors in the kubelet's words.
async fn forward(
    pod: &PodPorts,
    port: u16,
    input: mpsc::Receiver<Bytes>,
    output: &Output,
) -> Result<(), String> {
    let forwarded = match (pod.connect)(port).await {
        Ok(connection) => pass_on(connection, input, output).await.map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
                _ => error.to_string(),
            };
            format!("read: {why}")
        }),
        Err(why) => Err(why),
    };
    forwarded.map_err(|why| {
        let sandbox = &pod.sandbox;
        format!("error forwarding port {port} to pod {sandbox}, uid : {why}")
    })
}

async fn pass_on(
    connection: PortConnection,
    mut input: mpsc::Receiver<Bytes>,
    output: &Output,
) -> io::Result<()> {
    let PortConnection {
        mut reader,
        mut writer,
        serving,
    } = connection;
    let sending = async {
        while let Some(bytes) = input.recv().await {
            // A peer that reads no more may still write.
            if writer.write_all(&bytes).await.is_err() {
                break;
            }
        }
        // Bytes that the peer does not read must not block other streams.
        input.close();
        let _ = writer.shutdown().await;
    };
    let sending = async {
        sending.await;
        std::future::pending::<Infallible>().await
    };
    let receiving = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(READ_BYTES);
            let read = reader.read_buf(&mut buffer).await?;
            if read == 0 || !output.write(buffer.split().freeze()).await {
                return Ok(());
            }
        }
    };
    tokio::select! {
        biased;
        received = receiving => received,
        never = sending => match never {},
        () = serving => Ok(()),
    }
}

#[cfg(test)]
mod tests;
