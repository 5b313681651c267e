//! HTTP/1.1 byte for byte, for requests that no well-behaved client can make.
//!
//! It reads just enough of an answer to judge it: the status, the headers, a body of a stated
//! length. Chunked answers are not read, because nodes send none to such requests.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a node may take to answer, or to hang up.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);

/// How a node reacted to bytes.
#[derive(Debug)]
pub enum Reaction {
    /// It answered.
    Answered(RawReply),
    /// It hung up without an answer.
    HungUp,
}

/// An answer, read from its bytes.
#[derive(Debug)]
pub struct RawReply {
    /// The HTTP status.
    pub status: u16,
    /// All headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; `null` if it is not JSON.
    pub body: Value,
}

impl RawReply {
    /// The first header of a name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(other, _)| other == name);
        header.map(|(_, value)| value.as_str())
    }
}

/// Sends bytes over a connection of their own and waits for the reaction.
///
/// The sending side stays open while waiting, as a slow client's would, unless `then` says that the
/// client goes away in the middle.
pub async fn send(address: SocketAddr, bytes: &[u8], then: AfterSending) -> Reaction {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.expect("the node listens");
        // A node may answer and hang up before all is sent; then its answer is still there to read.
        let sent = stream.write_all(bytes).await;
        if sent.is_ok() && then == AfterSending::Finish {
            drop(stream.shutdown().await);
        }
        read_reply(&mut stream).await
    };
    let reaction = tokio::time::timeout(ANSWER_DEADLINE, exchange).await;
    reaction.expect("the node answers or hangs up in time")
}

/// What a client does when all its bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterSending {
    /// It waits.
    Wait,
    /// It tells that nothing more will come.
    Finish,
}

async fn read_reply(stream: &mut TcpStream) -> Reaction {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = find(&bytes, b"\r\n\r\n") {
            break end;
        }
        if !read_more(stream, &mut bytes).await {
            return Reaction::HungUp;
        }
    };
    let head = String::from_utf8_lossy(bytes.get(..head_end).unwrap_or_default()).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let mut reply = RawReply {
        status: status.expect("an answer starts with its status"),
        headers,
        body: Value::Null,
    };
    let length = reply.header("content-length").and_then(|length| length.parse().ok());
    let body_end = head_end + 4 + length.unwrap_or(0_usize);
    while bytes.len() < body_end && read_more(stream, &mut bytes).await {}
    let body = bytes.get(head_end + 4..).unwrap_or_default();
    reply.body = serde_json::from_slice(body).unwrap_or_default();
    Reaction::Answered(reply)
}

/// Reads what has come. `false` if nothing more will.
async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
    // A connection that is reset brings no more than one that is closed.
    stream.read_buf(bytes).await.is_ok_and(|count| count > 0)
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

/// The bytes of a well-formed request with these headers and this body, and its length.
pub fn request_bytes(line: &str, headers: &[(&str, &[u8])], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{line} HTTP/1.1\r\nhost: test\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}
