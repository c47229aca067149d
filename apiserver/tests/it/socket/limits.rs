//! Limits of a connection: how long it may wait, and how large the head of a request may be.

use super::*;

/// Sends `bytes` on a new connection and waits for its end; returns the virtual time until then.
async fn ends_after(running: &Running, bytes: &[u8]) -> (String, Duration) {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let began = tokio::time::Instant::now();
    stream.write_all(bytes).await.unwrap();
    (rest(stream).await, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn half_sent_heads_and_idle_connections_are_closed_as_upstream_closes_them() {
    let running = start().await;
    let seconds = Duration::from_secs;
    let half: [&[u8]; 4] = [
        b"",
        b"GET / HTT",
        b"GET /readyz HTTP/1.1\r\nhost: [::]\r\nx-more: ",
        b"PRI * HTTP/2.0\r\n\r\nS",
    ];
    for bytes in half {
        let (answer, after) = ends_after(&running, bytes).await;
        assert_eq!(answer, "", "{bytes:?}");
        assert!((seconds(32)..seconds(33)).contains(&after), "{after:?}");
    }
    // Between two requests there is more time, and from the first byte of the next as much as ever.
    let whole = b"GET /readyz HTTP/1.1\r\nhost: [::]\r\n\r\n";
    let (answer, after) = ends_after(&running, whole).await;
    assert!(answer.ends_with("ok"), "{answer}");
    assert!((seconds(89)..seconds(91)).contains(&after), "{after:?}");
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(whole).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok") {
        answer.push(stream.read_u8().await.unwrap());
    }
    tokio::time::advance(seconds(50)).await;
    let began = tokio::time::Instant::now();
    stream.write_all(b"GET").await.unwrap();
    assert_eq!(rest(stream).await, "");
    let after = began.elapsed();
    assert!((seconds(31)..seconds(33)).contains(&after), "{after:?}");
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_of_http2_is_sent_goaway_and_a_watch_is_not() {
    let server = ApiServer::builder().build();
    let running = start_with(server.clone()).await;
    let (mut client, task) = http2(&running).await;
    let mut watch = client
        .send_request(namespaces("?watch=1&timeoutSeconds=600"))
        .await
        .unwrap()
        .into_body();
    let began = tokio::time::Instant::now();
    let mut text = String::new();
    while let Some(frame) = watch.frame().await {
        let data = frame.unwrap().into_data().unwrap_or_default();
        text.push_str(std::str::from_utf8(&data).unwrap());
    }
    let after = began.elapsed();
    assert!(after >= Duration::from_secs(600), "{after:?}: {text}");
    // The client ends its side when it is asked to go away.
    let began = tokio::time::Instant::now();
    task.await.unwrap().unwrap();
    let after = began.elapsed();
    let range = Duration::from_secs(89)..Duration::from_secs(92);
    assert!(range.contains(&after), "{after:?}");
    assert!(!client.is_ready());
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn heads_of_http1_are_refused_in_the_words_of_net_http() {
    let running = start().await;
    let headers = |count: usize| "x-a: b\r\n".repeat(count);
    let long = format!("x-long: {}\r\n", "x".repeat(900_000));
    let part = format!("x-part: {}\r\n", "x".repeat(400_000));
    let get = "GET /readyz HTTP/1.1\r\nconnection: close\r\n";
    let (get_10, post) = (
        "GET /readyz HTTP/1.0\r\n",
        "POST /api/v1/namespaces HTTP/1.1\r\n",
    );
    let missing = "400 Bad Request: missing required Host header";
    let malformed = "400 Bad Request: malformed Host header";
    let gzip = format!("{post}host: [::]\r\ntransfer-encoding: gzip, chunked\r\n");
    let cases = [
        (get.to_owned(), missing, missing),
        (get_10.to_owned(), "200 OK", "ok"),
        (
            format!("{get}host: a\r\nhost: b\r\n"),
            "400 Bad Request",
            "400 Bad Request",
        ),
        (format!("{get}host: a b\r\n"), malformed, malformed),
        (format!("{get}host:\r\n"), "200 OK", "ok"),
        (
            format!("{get}host: [::]\r\nexpect: 200-ok\r\n"),
            "417 Expectation Failed",
            "",
        ),
        (
            format!("{get}host: [::]\r\nexpect: 100-continue\r\n"),
            "200 OK",
            "ok",
        ),
        (gzip, "501 Not Implemented", "Unsupported transfer encoding"),
        (
            format!("{get}host: [::]\r\n{}", headers(240)),
            "200 OK",
            "ok",
        ),
        (format!("{get}host: [::]\r\n{long}"), "200 OK", "ok"),
        (
            format!("{get}host: [::]\r\n{long}{long}"),
            "431 Request Header Fields Too Large",
            "",
        ),
        // A parser may have all of it before its buffer is full.
        (
            format!("{get}host: [::]\r\n{}", part.repeat(3)),
            "431 Request Header Fields Too Large",
            "",
        ),
    ];
    for (head, status, body) in cases {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        // Of a head that is too long the server reads no more than its limit.
        let _ = stream.write_all(format!("{head}\r\n").as_bytes()).await;
        let answer = rest(stream).await;
        let (line, answered) = answer.split_once("\r\n").unwrap_or((&answer, ""));
        let version = ["HTTP/1.1 ", "HTTP/1.0 "];
        let found = version
            .iter()
            .find_map(|version| line.strip_prefix(version));
        let shown: String = head.chars().take(80).collect();
        assert_eq!(found, Some(status), "{shown}");
        assert!(
            answered.ends_with(&format!("\r\n\r\n{body}")),
            "{shown}: {answer}"
        );
    }
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn heads_of_http2_have_a_mebibyte() {
    let running = start().await;
    let (mut client, task) = http2(&running).await;
    for (length, status) in [(900_000, 200), (1_100_000, 431)] {
        let request = Request::get("http://localhost/readyz")
            .header("x-long", "x".repeat(length))
            .body(Empty::new())
            .unwrap();
        assert_eq!(client.send_request(request).await.unwrap().status(), status);
    }
    drop(client);
    task.await.unwrap().unwrap();
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}
