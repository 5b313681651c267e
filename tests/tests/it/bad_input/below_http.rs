//! Bytes that are no request, and requests that never end.

use purser_tests::AfterSending;

use super::Scene;

/// What it is, the bytes, and what the client does then.
type Bytes = (&'static str, Vec<u8>, AfterSending);

pub(super) fn rows(scene: &Scene) -> Vec<Bytes> {
    let holds = scene.account.path("holds");
    let good = scene.post(&holds, r#"{"amount":1}"#);
    let text = String::from_utf8_lossy(&good).into_owned();
    let with = |header: &str| text.replacen("host: test\r\n", header, 1).into_bytes();
    let bomb = |count: usize, bytes: usize| {
        let headers: Vec<String> =
            (0..count).map(|number| format!("x-{number}: {}\r\n", "v".repeat(bytes))).collect();
        with(&format!("host: test\r\n{}", headers.concat()))
    };
    let plain = AfterSending::Wait;
    let mut rows = vec![
        ("NULs", vec![0; 64], AfterSending::Finish),
        ("words", b"hello there\r\n\r\n".to_vec(), plain),
        (
            "another protocol",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
            AfterSending::Finish,
        ),
        ("another version", text.replacen("HTTP/1.1", "HTTP/9.9", 1).into_bytes(), plain),
        ("no method", text.replacen("POST ", "", 1).into_bytes(), plain),
        ("a header of 100 KiB", bomb(1, 100 << 10), plain),
        ("a thousand headers", bomb(1_000, 10), plain),
        (
            "a path of 100 KiB",
            text.replacen("/holds", &"/x".repeat(50 << 10), 1).into_bytes(),
            plain,
        ),
        ("a control character in a header", with("host: test\r\nx: a\x01b\r\n"), plain),
        ("a header without a name", with("host: test\r\n: v\r\n"), plain),
        ("a space before the colon", with("host: test\r\nx : v\r\n"), plain),
        ("a folded header", with("host: test\r\nx: a\r\n b\r\n"), plain),
        ("two lengths", with("host: test\r\ncontent-length: 5\r\n"), plain),
        (
            "a negative length",
            text.replace("content-length: 12", "content-length: -1").into_bytes(),
            plain,
        ),
        (
            "a length in words",
            text.replace("content-length: 12", "content-length: ten").into_bytes(),
            plain,
        ),
        ("a control character in the key", text.replace("fresh-", "fresh\x02").into_bytes(), plain),
    ];
    let chunked = text.replace("content-length: 12\r\n", "transfer-encoding: chunked\r\n");
    let chunked = |body: &str| chunked.replace(r#"{"amount":1}"#, body).into_bytes();
    rows.push(("a chunk of an odd size", chunked("zz\r\n{}\r\n0\r\n\r\n"), plain));
    rows.push(("a chunk that is not there", chunked("c\r\n{\"am"), AfterSending::Finish));
    let half = text.trim_end_matches(r#"unt":1}"#).as_bytes().to_vec();
    rows.push(("half a body", half, AfterSending::Finish));
    let head = text.split_once("\r\n\r\n").map_or("", |(head, _)| head).as_bytes().to_vec();
    rows.push(("half a head", head, AfterSending::Finish));
    rows
}
