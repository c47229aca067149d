//! `nc` in listen mode.

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::container::state::Shell;
use crate::container::streams::Streams;

const READ_BYTES: usize = 16 * 1024;

/// The parsed arguments of `nc`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    listens: bool,
    /// `-k`: accepts further connections after the first.
    keeps: bool,
    /// `-e`: each connection is served by a program.
    executes: bool,
    port: Option<u16>,
}

impl Options {
    /// Parses the arguments of the netcats that images have; some take the port after `-p`.
    fn parse(arguments: &[String]) -> Self {
        let mut options = Self::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let Some(letters) = word.strip_prefix('-') else {
                options.port = word.parse().ok().or(options.port);
                continue;
            };
            for (index, letter) in letters.char_indices() {
                match letter {
                    // busybox keeps listening if `-l` is given twice.
                    'l' if options.listens => options.keeps = true,
                    'l' => options.listens = true,
                    'k' => options.keeps = true,
                    'p' | 'w' | 'i' | 's' | 'e' | 'q' => {
                        let rest = &letters[index + 1..];
                        let value = match rest.is_empty() {
                            true => words.next().map_or("", String::as_str),
                            false => rest,
                        };
                        match letter {
                            'p' => options.port = value.parse().ok(),
                            'e' => options.executes = true,
                            _ => {}
                        }
                        break;
                    }
                    _ => {}
                }
            }
        }
        options
    }
}

/// Listens on a port and connects its streams with the client's. Returns `None` for any other mode:
/// there is no network to connect to.
pub(super) async fn run(shell: &Shell, arguments: &[String], io: &Streams) -> Option<i32> {
    if arguments.is_empty() {
        io.stderr.line("usage: nc -l [-k] [-p] PORT");
        return Some(1);
    }
    let options = Options::parse(arguments);
    let port = options
        .port
        .filter(|_| options.listens && !options.executes)?;
    let Some(mut listener) = shell.listeners.listen(port) else {
        io.stderr.line("nc: bind: Address already in use");
        return Some(1);
    };
    if options.keeps {
        loop {
            exchange(listener.accept().await, io).await;
        }
    }
    let connection = listener.accept().await;
    // Further connections are refused from here on.
    drop(listener);
    exchange(connection, io).await;
    Some(0)
}

/// Copies both directions until the client has closed its side; the end of standard input does not
/// end it.
async fn exchange(connection: DuplexStream, io: &Streams) {
    let (mut reader, mut writer) = tokio::io::split(connection);
    let sending = async {
        while let Some(bytes) = io.stdin.chunk().await {
            if writer.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = writer.shutdown().await;
        std::future::pending().await
    };
    let receiving = async {
        let mut buffer = BytesMut::with_capacity(READ_BYTES);
        while reader
            .read_buf(&mut buffer)
            .await
            .is_ok_and(|read| read > 0)
        {
            io.stdout.write(&buffer);
            buffer.clear();
            io.stdout.ready().await;
        }
    };
    tokio::select! {
        biased;
        () = receiving => {}
        () = sending => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_named_in_many_ways() {
        for (line, listens, keeps, port) in [
            ("-l -p 8080", true, false, Some(8080)),
            ("-lp 8080", true, false, Some(8080)),
            ("-lk -p8080", true, true, Some(8080)),
            ("-ll -p 80", true, true, Some(80)),
            ("-l 0.0.0.0 81 -w 3", true, false, Some(81)),
            ("-vz db 5432", false, false, Some(5432)),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let expected = Options {
                listens,
                keeps,
                executes: false,
                port,
            };
            assert_eq!(Options::parse(&words), expected, "{line}");
        }
    }
}
