use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::ready;
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Error as Failed;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;

type Chunk = io::Result<&'static str>;

/// An answer with a code, whose body comes in chunks.
struct Answer {
    code: u16,
    chunks: Vec<Chunk>,
    /// The time after the last chunk until the body ends.
    lasts: Duration,
}

fn answer(code: u16, text: &'static str) -> Answer {
    Answer {
        code,
        chunks: vec![Ok(text)],
        lasts: Duration::ZERO,
    }
}

fn list(text: &'static str) -> Answer {
    answer(200, text)
}

fn watch(chunks: Vec<Chunk>) -> Answer {
    Answer {
        code: 200,
        chunks,
        lasts: Duration::ZERO,
    }
}

/// An empty list of version 3.
const EMPTY: &str = r#"{"metadata":{"resourceVersion":"3"},"items":[]}"#;

/// The events in words from a server that gives these answers, and the queries of its requests. After the last answer the
/// server is silent.
async fn followed(answers: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    followed_with(true, answers).await
}

/// As [`followed`], from a server without streaming lists, whose requests are not among the queries.
async fn followed_in_pages(answers: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    followed_with(false, answers).await
}

async fn followed_with(streams: bool, answers: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    let mut answers = VecDeque::from(answers);
    let queries = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&queries);
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let query = query.trim_matches('&').to_owned();
        let answer = if !streams && query == STREAM {
            Some(answer(422, INVALID))
        } else {
            noted.lock().push(query);
            answers.pop_front()
        };
        async {
            let Some(answer) = answer else {
                return std::future::pending().await;
            };
            let frame = |chunk: Chunk| chunk.map(|text| Frame::data(Bytes::from(text)));
            let chunks = stream::iter(answer.chunks).map(frame);
            let end = stream::once(tokio::time::sleep(answer.lasts));
            let chunks = chunks.chain(end.filter_map(|()| ready(None)));
            let response = Response::builder().status(answer.code);
            Ok::<_, Infallible>(response.body(StreamBody::new(chunks)).unwrap())
        }
    });
    let client = Client::new(service, "default");
    let url = Url("/api/v1/configmaps".to_owned());
    let events = list_watch(client, &url, Config::default().timeout(60));
    let never = tokio::time::sleep(Duration::from_secs(600));
    let words = events.map(|event| words(&event)).take_until(never);
    let words = words.collect().await;
    let queries = queries.lock().clone();
    (words, queries)
}

fn words(event: &watcher::Result<Event<Undecoded>>) -> String {
    let of = |object: &Undecoded| {
        let map = object.decode::<ConfigMap>().unwrap();
        map.metadata.name.clone().unwrap_or_default()
    };
    match event {
        Ok(Event::Init) => "list".to_owned(),
        Ok(Event::InitApply(object)) => format!("listed {}", of(object)),
        Ok(Event::InitDone) => "watch".to_owned(),
        Ok(Event::Apply(object)) => format!("applied {}", of(object)),
        Ok(Event::Delete(object)) => format!("deleted {}", of(object)),
        Err(error) => error.to_string(),
    }
}

const LIST: &str = "limit=500";
const STREAM: &str = "watch=true&timeoutSeconds=60&allowWatchBookmarks=true&sendInitialEvents=true\
    &resourceVersionMatch=NotOlderThan&resourceVersion=";
/// The answer of a server without streaming lists.
const INVALID: &str =
    r#"{"status":"Failure","message":"sendInitialEvents is forbidden","code":422}"#;

fn watch_from(version: u32) -> String {
    format!("watch=true&timeoutSeconds=60&allowWatchBookmarks=true&resourceVersion={version}")
}

#[tokio::test(start_paused = true)]
async fn the_watch_that_brings_the_present_objects_goes_on() {
    let present = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"2"}}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2"}}}"#,
        "\n",
        r#"{"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"1"}}}"#,
        "\n",
    );
    let end = concat!(
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3","#,
        r#""annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n",
        r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"4"}}}"#,
        "\n",
    );
    let (words, queries) = followed(vec![watch(vec![Ok(present), Ok(end)])]).await;
    let expected = ["list", "listed a", "listed b", "watch", "applied a"];
    assert_eq!(words, expected);
    assert_eq!(queries, [STREAM, &watch_from(4)]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_before_the_bookmark_is_gone_after_it() {
    let lines = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}"#,
        "\n",
        r#"{"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"2"}}}"#,
        "\n",
        r#"{"type":"MODIFIED","object":{"metadata":{"name":"b","resourceVersion":"3"}}}"#,
        "\n",
        r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"4"}}}"#,
        "\n",
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"5"}}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","#,
        r#""annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n",
    );
    let lasting = Answer {
        lasts: Duration::from_secs(1),
        ..watch(vec![Ok(lines)])
    };
    let (words, queries) = followed(vec![lasting]).await;
    let expected = [
        "list",
        "listed a",
        "listed b",
        "listed b",
        "watch",
        "deleted a",
        "applied a",
    ];
    assert_eq!(words, expected);
    assert_eq!(queries, [STREAM, &watch_from(5)]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_among_the_present_objects_is_begun_anew() {
    let object = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"2"}}}"#,
        "\n"
    );
    let gone = concat!(
        r#"{"type":"ERROR","object":{"code":410,"message":"gone","status":"Failure"}}"#,
        "\n"
    );
    let late = r#"{"status":"Failure","message":"later","code":429}"#;
    let failed = || Err(io::Error::other("bad frame"));
    let (words, queries) = followed(vec![
        watch(vec![Ok(object)]),
        watch(vec![Ok(gone)]),
        answer(429, late),
        watch(vec![failed()]),
    ])
    .await;
    let begins = [
        "list",
        "listed a",
        "failed to perform initial object list: Error reading events stream: the watch has ended",
        "list",
        "error returned by apiserver during watch: gone",
        "list",
        "failed to perform initial object list: ApiError: later",
        "list",
        "failed to perform initial object list: Error reading events stream",
        "list",
    ];
    assert_eq!(words.len(), begins.len(), "{words:#?}");
    for (word, begin) in words.iter().zip(begins) {
        assert!(word.starts_with(begin), "{word} is not {begin}");
    }
    assert_eq!(queries, [STREAM; 5]);
}

#[tokio::test(start_paused = true)]
async fn pages_are_listed_and_a_watch_goes_on_where_another_has_ended() {
    let a =
        r#"{"metadata":{"resourceVersion":"","continue":"b"},"items":[{"metadata":{"name":"a"}}]}"#;
    let b =
        r#"{"metadata":{"resourceVersion":"3","continue":""},"items":[{"metadata":{"name":"b"}}]}"#;
    let first = r#"{"type":"ADDED","object":{"metadata":{"name":"c","resourceVersion":"4"}}}"#;
    let (begun, rest) = first.split_at(30);
    let others = concat!(
        "\n",
        r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"5"}}}"#,
        "\r\n\n",
        r#"{"object":{"metadata":{"name":"b","resourceVersion":"6"}},"type":"DELETED"}"#,
        "\n",
    );
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
    let (words, queries) = followed_in_pages(vec![
        list(a),
        list(b),
        watch(vec![Ok(begun), Ok(""), Ok(rest), Ok(others)]),
        // Without an end of the line.
        watch(vec![Ok(bookmark)]),
    ])
    .await;
    let expected = [
        "list",
        "listed a",
        "listed b",
        "watch",
        "applied c",
        "applied a",
        "deleted b",
    ];
    assert_eq!(words, expected);
    let second_page = format!("{LIST}&continue=b");
    let watches = [3, 6, 9].map(watch_from);
    assert_eq!(
        queries,
        [&[LIST.to_owned(), second_page][..], &watches].concat()
    );
}

#[test]
fn an_event_that_was_read_before_is_the_same_object() {
    let line = br#"{"type":"ADDED","object":{"metadata":{"name":"known","resourceVersion":"4"}}}"#;
    let of = |line: &[u8]| match lines::read(line) {
        Ok(Some(Line::Object(object, to_event))) => (object, to_event),
        _ => panic!("it is an object"),
    };
    assert!(lines::known(line).is_none());
    let (first, to_event) = of(line);
    assert!(matches!(to_event(first.clone()), Event::Apply(_)));
    let modified = String::from_utf8_lossy(line).replace("ADDED", "MODIFIED");
    let deleted = String::from_utf8_lossy(line).replace("ADDED", "DELETED");
    for line in [line, modified.as_bytes(), deleted.as_bytes()] {
        assert!(lines::known(line).is_some(), "it need not be read again");
    }
    let (second, to_event) = of(modified.as_bytes());
    assert!(matches!(to_event(second.clone()), Event::Apply(_)));
    let (third, to_event) = of(deleted.as_bytes());
    assert!(matches!(to_event(third.clone()), Event::Delete(_)));
    let decoded = [first, second, third].map(|object| object.decode::<ConfigMap>().unwrap());
    assert!(Arc::ptr_eq(&decoded[0], &decoded[1]));
    assert!(Arc::ptr_eq(&decoded[0], &decoded[2]));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_is_followed_by_a_list_and_other_errors_by_the_next_event() {
    let lines = concat!(
        r#"{"type":"ERROR","object":{"code":500,"message":"broken","status":"Failure"}}"#,
        "\n",
        "no JSON\n",
        r#"{"type":"MOVED","object":{}}"#,
        "\n",
        r#"{"status":"Failure","message":"too late","code":429}"#,
        "\n",
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"4"}}}"#,
        "\n",
        r#"{"type":"ERROR","object":{"code":410,"message":"gone","status":"Failure"}}"#,
        "\n",
    );
    let (words, queries) =
        followed_in_pages(vec![list(EMPTY), watch(vec![Ok(lines)]), list(EMPTY)]).await;
    let begins = [
        "list",
        "watch",
        "error returned by apiserver during watch: broken",
        "watch stream failed: Error deserializing response",
        "watch stream failed: Error deserializing response",
        "watch stream failed: ApiError: too late",
        "applied a",
        "error returned by apiserver during watch: gone",
        "list",
        "watch",
    ];
    assert_eq!(words.len(), begins.len(), "{words:#?}");
    for (word, begin) in words.iter().zip(begins) {
        assert!(word.starts_with(begin), "{word} is not {begin}");
    }
    assert_eq!(queries, [LIST, &watch_from(3), LIST, &watch_from(3)]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_off_is_an_end() {
    let whole = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"4"}}}"#,
        "\n"
    );
    let begun = r#"{"type":"ADDED","object":{"metadata":{"#;
    let broken = || Err(io::ErrorKind::UnexpectedEof.into());
    let reset = || Err(io::ErrorKind::ConnectionReset.into());
    let (words, queries) = followed_in_pages(vec![
        list(EMPTY),
        watch(vec![Ok(whole), Ok(begun), broken()]),
        watch(vec![Ok(whole), reset()]),
    ])
    .await;
    assert_eq!(words, ["list", "watch", "applied a", "applied a"]);
    assert_eq!(
        queries,
        [LIST, &watch_from(3), &watch_from(4), &watch_from(4)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_brings_nothing_for_less_than_a_second_is_a_failure() {
    let begun = r#"{"type":"ADDED","object":{"metadata":{"#;
    let lasting = Answer {
        lasts: Duration::from_secs(1),
        ..watch(vec![])
    };
    let (words, queries) = followed_in_pages(vec![
        list(EMPTY),
        lasting,
        watch(vec![Ok(begun)]),
        list(EMPTY),
    ])
    .await;
    assert_eq!(words.len(), 5, "{words:#?}");
    assert!(words[2].contains("very short watch"), "{words:#?}");
    assert_eq!(words[3..], ["list", "watch"]);
    let watches = [watch_from(3), watch_from(3), LIST.to_owned(), watch_from(3)];
    assert_eq!(queries[1..], watches);
    let present = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","#,
        r#""annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n",
    );
    let (words, queries) = followed(vec![watch(vec![Ok(present)])]).await;
    assert!(words[3].contains("very short watch"), "{words:#?}");
    assert_eq!(words.len(), 5, "{words:#?}");
    assert_eq!(queries, [STREAM; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_given_up_that_has_brought_nothing_for_longer_than_it_should_last() {
    let began = Instant::now();
    let line = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"4"}}}"#,
        "\n"
    );
    let silent = stream::once(ready(Ok::<_, Infallible>(Frame::data(Bytes::from(line)))));
    let silent = silent.chain(stream::pending());
    let mut answers = VecDeque::from([StreamBody::new(silent.boxed())]);
    let service = tower::service_fn(move |_: Request<Body>| {
        ready(Ok::<_, Infallible>(Response::new(
            answers.pop_front().unwrap(),
        )))
    });
    let client = Client::new(service, "default");
    let mut watching = ListWatch {
        client,
        requests: ResourceRequest::new("/api/v1/configmaps"),
        config: Config::default().timeout(60),
        state: State::Listed {
            version: "3".to_owned(),
        },
    };
    let mut lines = watching.watch("3", false).await.unwrap();
    tokio::time::advance(Duration::from_secs(50)).await;
    assert!(matches!(lines.next().await, Some(Ok(Line::Object(..)))));
    assert!(lines.next().await.is_none());
    assert_eq!(began.elapsed().as_secs(), 50 + 65);
}

#[tokio::test(start_paused = true)]
async fn requests_that_fail_are_repeated() {
    let no_version = r#"{"metadata":{},"items":[]}"#;
    let unversioned = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
        "\n"
    );
    let forbidden = r#"{"status":"Failure","message":"no","code":403}"#;
    let (words, queries) = followed_in_pages(vec![
        answer(403, forbidden),
        answer(502, "<html>\n"),
        list("{"),
        list(no_version),
        list(EMPTY),
        answer(403, forbidden),
        watch(vec![Ok(unversioned)]),
        list(EMPTY),
    ])
    .await;
    let begins = [
        "list",
        "failed to perform initial object list: ApiError: no",
        "list",
        "failed to perform initial object list: ApiError: <html>: Failed to parse error data",
        "list",
        "failed to perform initial object list: Error deserializing response",
        "list",
        &Failed::NoResourceVersion.to_string(),
        "list",
        "watch",
        "failed to start watching object: ApiError: no",
        &Failed::NoResourceVersion.to_string(),
        "list",
        "watch",
    ];
    assert_eq!(words.len(), begins.len(), "{words:#?}");
    for (word, begin) in words.iter().zip(begins) {
        assert!(word.starts_with(begin), "{word} is not {begin}");
    }
    let watches = [watch_from(3), watch_from(3), LIST.to_owned(), watch_from(3)];
    assert_eq!(queries[5..], watches);
}
