//! The answer to clients that speak plain HTTP to a TLS port, in the words of Go's `net/http`.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The beginnings by which `net/http` recognizes plain HTTP: as long as a TLS record's header.
const BEGINNINGS: [&[u8; 5]; 5] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"];

/// The types of records that a client of TLS may begin with: an alert, a handshake. All else is closed
/// without an alert, as by Go.
const FIRST_RECORDS: [u8; 2] = [21, 22];

const ANSWER: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// The time for which a client may go on sending, so that it sees the answer and not a reset.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// Answers a client that begins with plain HTTP, and returns the stream of any other. Calls `failed`
/// when there will be no handshake.
///
/// # Errors
/// When the client goes away.
pub(super) async fn refuse(
    mut stream: TcpStream,
    failed: impl FnOnce(),
) -> io::Result<Option<TcpStream>> {
    let mut first = [0];
    stream.peek(&mut first).await?;
    if FIRST_RECORDS.contains(&first[0]) {
        return Ok(Some(stream));
    }
    failed();
    let mut header = [0; 5];
    stream.read_exact(&mut header).await?;
    if BEGINNINGS.contains(&&header) {
        stream.write_all(ANSWER).await?;
        stream.shutdown().await?;
        let mut nowhere = tokio::io::sink();
        let rest = tokio::io::copy(&mut stream, &mut nowhere);
        let _ = timeout(DRAIN_TIME_MAX, rest).await;
    }
    Ok(None)
}
