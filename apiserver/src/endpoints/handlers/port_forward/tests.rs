use futures::SinkExt;
use tokio::io::DuplexStream;
use tokio::sync::oneshot;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;
use crate::endpoints::streams::peer::{Peer, data};
use crate::spdy::Received;

/// A pod whose port 7 echoes its input and reports the end of it; other ports refuse connections.
fn pod() -> (PodPorts, oneshot::Receiver<()>) {
    let (gone, closed) = oneshot::channel();
    let gone = parking_lot::Mutex::new(Some(gone));
    let connect = move |port: u16| {
        let (client, server) = tokio::io::duplex(1024);
        let gone = gone.lock().take();
        let connection = (port == 7).then(|| {
            let (reader, writer) = tokio::io::split(client);
            PortConnection {
                reader: Box::new(reader),
                writer: Box::new(writer),
                serving: echo(server, gone).boxed(),
            }
        });
        std::future::ready(connection.ok_or_else(|| "refused".to_owned())).boxed()
    };
    let pod = PodPorts {
        sandbox: "s".to_owned(),
        connect: Box::new(connect),
    };
    (pod, closed)
}

async fn echo(stream: DuplexStream, gone: Option<oneshot::Sender<()>>) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    tokio::io::copy(&mut reader, &mut writer).await.unwrap();
    writer.shutdown().await.unwrap();
    drop(gone);
    std::future::pending().await
}

const ERROR: (&str, &str) = ("streamType", "error");
const DATA: (&str, &str) = ("streamType", "data");
const REFUSED: &str = "error forwarding port 81 to pod s, uid : refused";

#[tokio::test]
async fn pairs_of_streams_are_connections_to_ports() {
    let (mut peer, reader, writer) = Peer::connect();
    let client = async {
        let (seven, other) = (("port", "7"), ("port", "81"));
        peer.open(1, &[ERROR, seven, ("requestID", "0")]).await;
        peer.write(1, "").await;
        // Another pair is opened in between, by an old client, and the wrong way round.
        peer.open(3, &[DATA, other, ("requestID", "1")]).await;
        peer.open(5, &[DATA, seven, ("requestID", "0")]).await;
        peer.write(5, "one").await;
        assert_eq!(peer.next().await, Some(data(5, "one")));
        peer.open(7, &[ERROR, other, ("requestID", "1")]).await;
        assert_eq!(peer.read(7).await, (REFUSED.to_owned(), true));
        assert_eq!(peer.read(3).await, (String::new(), true));
        peer.open(9, &[ERROR, seven]).await;
        peer.open(11, &[DATA, seven]).await;
        peer.write(11, "two").await;
        assert_eq!(peer.next().await, Some(data(11, "two")));
        // The end of what one side writes does not end the other's.
        for (number, error) in [(5, 1), (11, 9)] {
            peer.write(number, "").await;
            assert_eq!(peer.read(number).await, (String::new(), false));
            assert_eq!(peer.read(error).await, (String::new(), false));
        }
        peer.go_away().await;
        assert_eq!(peer.next().await, None);
    };
    let (pod, _closed) = pod();
    tokio::join!(over_streams(reader, writer, pod), client);
}

#[tokio::test]
async fn streams_that_say_nothing_of_a_port_are_refused() {
    let (mut peer, reader, writer) = Peer::connect();
    let client = async {
        let malformed: [&[(&str, &str)]; 5] = [
            &[ERROR],
            &[ERROR, ("port", "0")],
            &[ERROR, ("port", "65536")],
            &[("port", "7")],
            &[("port", "7"), ("streamType", "other")],
        ];
        for (number, headers) in (1..).step_by(2).zip(malformed) {
            peer.open(number, headers).await;
            assert_eq!(peer.next().await, Some(Received::Reset { stream: number }));
        }
        let headers = [ERROR, ("port", "7"), ("requestID", "0")];
        peer.open(21, &headers).await;
        peer.open(23, &headers).await;
        let why = "error processing stream for request 0: error stream already assigned";
        assert_eq!(peer.next().await, Some(data(21, why)));
        peer.go_away().await;
    };
    let (pod, _closed) = pod();
    tokio::join!(over_streams(reader, writer, pod), client);
}

#[tokio::test]
async fn a_reset_closes_the_connection_to_the_port() {
    let (mut peer, reader, writer) = Peer::connect();
    let (pod, closed) = pod();
    let client = async {
        peer.open(1, &[ERROR, ("port", "7")]).await;
        peer.open(3, &[DATA, ("port", "7")]).await;
        peer.write(3, "one").await;
        assert_eq!(peer.next().await, Some(data(3, "one")));
        peer.reset(3).await;
        assert!(closed.await.is_err());
        peer.go_away().await;
    };
    tokio::join!(over_streams(reader, writer, pod), client);
}

/// The next message of a socket, as text.
async fn message(socket: &mut WebSocketStream<DuplexStream>) -> String {
    let message = socket.next().await.unwrap().unwrap();
    String::from_utf8(message.into_data().to_vec()).unwrap()
}

#[tokio::test]
async fn channels_are_pairs_that_begin_with_their_port() {
    for (base64, first, said, expected, error) in [
        (
            false,
            ["\0\u{7}\0", "\u{1}\u{7}\0"],
            "\0hi",
            "\0hi",
            format!("\u{3}{REFUSED}"),
        ),
        (
            true,
            ["0BwA=", "1BwA="],
            "0aGk=",
            "0aGk=",
            "3ZXJyb3IgZm9yd2FyZGluZyBwb3J0IDgxIHRvIHBvZCBzLCB1aWQgOiByZWZ1c2Vk".to_owned(),
        ),
    ] {
        let (client, served) = tokio::io::duplex(1 << 16);
        let coding = Coding {
            base64,
            closes: false,
        };
        let (pod, _closed) = pod();
        let serving = over_channels(served, coding, pod, vec![7, 81]);
        let client = async {
            let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
            for expected in first {
                assert_eq!(message(&mut socket).await, expected);
            }
            // The first messages of the other port.
            message(&mut socket).await;
            message(&mut socket).await;
            assert_eq!(message(&mut socket).await, error);
            // A channel of no port, and one that is only read.
            for ignored in ["\u{9}no", "1aGk="] {
                socket.send(Message::binary(ignored)).await.unwrap();
            }
            socket.send(Message::binary(said)).await.unwrap();
            assert_eq!(message(&mut socket).await, expected);
            socket.close(None).await.unwrap();
            while socket.next().await.is_some() {}
        };
        tokio::join!(serving, client);
    }
}
