//! The wire as the nodes at its ends see it. Delays run on paused time, cuts over real connections.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use purser_types::Region;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::weather::{Way, Weather};
use super::{Distances, Wire, pipe};
use crate::dev::layout::{DevLayout, NodeName, NodePlace, NodesPerRegion};

fn region(name: &str) -> Region {
    Region::parse(name).unwrap()
}

fn distances(text: &str) -> Distances {
    Distances::parse(text, &DevLayout::region_names()).unwrap()
}

/// A pipe from us to eu, with its two ends and the weather.
fn pipe_of(round_trips: &str, tasks: &mut JoinSet<()>) -> (DuplexStream, DuplexStream, Sky) {
    let weather =
        watch::Sender::new(Weather { distances: distances(round_trips), ..Weather::default() });
    let way = Way::new(weather.subscribe(), region("us"), "eu/1".parse().unwrap());
    let (near, mut into) = duplex(64 << 10);
    let (mut out_of, far) = duplex(64 << 10);
    tasks.spawn(async move { pipe::carry(&mut into, &mut out_of, way).await.unwrap() });
    (near, far, Sky(weather))
}

struct Sky(watch::Sender<Weather>);

impl Sky {
    fn slow_us(&self, by: Duration) {
        self.0.send_modify(|weather| {
            weather.regions.entry(region("us")).or_default().slowed_by = by;
        });
    }
}

async fn read_text(from: &mut DuplexStream, bytes: usize) -> String {
    let mut text = vec![0; bytes];
    from.read_exact(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_in_order_after_half_the_round_trip() {
    let mut tasks = JoinSet::new();
    let (mut near, mut far, _sky) = pipe_of("us-eu=80", &mut tasks);
    let start = Instant::now();
    near.write_all(b"one ").await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    near.write_all(b"two").await.unwrap();
    drop(near);
    assert_eq!(read_text(&mut far, 4).await, "one ");
    assert_eq!(start.elapsed(), Duration::from_millis(40));
    assert_eq!(read_text(&mut far, 3).await, "two");
    assert_eq!(start.elapsed(), Duration::from_millis(50));
    assert_eq!(far.read_u8().await.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_delay_counts_for_what_is_under_way_and_changes_no_order() {
    let mut tasks = JoinSet::new();
    let (mut near, mut far, sky) = pipe_of("us-eu=80", &mut tasks);
    sky.slow_us(Duration::from_secs(30));
    let start = Instant::now();
    near.write_all(b"early ").await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    sky.slow_us(Duration::ZERO);
    near.write_all(b"late").await.unwrap();
    assert_eq!(read_text(&mut far, 10).await, "early late");
    assert_eq!(start.elapsed(), Duration::from_millis(45), "nobody waits for the old delay");
}

/// More than may be under way, so that the pipe has to stop taking in and go on.
#[tokio::test(start_paused = true)]
async fn a_big_stream_arrives_whole_over_a_long_way() {
    const WORDS: u32 = 3 << 20;
    let mut tasks = JoinSet::new();
    let (mut near, mut far, _sky) = pipe_of("us-eu=200", &mut tasks);
    tasks.spawn(async move {
        for block in 0..WORDS / 1_024 {
            let words = block * 1_024..(block + 1) * 1_024;
            let bytes: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
            near.write_all(&bytes).await.unwrap();
        }
    });
    let mut block = vec![0; 4_096];
    for number in 0..WORDS / 1_024 {
        far.read_exact(&mut block).await.unwrap();
        let words = (number * 1_024..(number + 1) * 1_024).flat_map(u32::to_be_bytes);
        assert!(words.eq(block.iter().copied()), "block {number} is not what was sent");
    }
    assert!(far.read_u8().await.is_err(), "nothing more was sent");
}

/// Three regions with one node each, which answer every byte with the same byte.
struct World {
    wire: Wire,
    nodes: Vec<Echo>,
    _tasks: JoinSet<()>,
}

/// A node's peer port. What each connection has said so far comes out of `heard`.
struct Echo {
    name: NodeName,
    heard: tokio::sync::mpsc::UnboundedReceiver<u8>,
}

impl World {
    async fn new() -> Self {
        let mut layout = DevLayout::new(7_700, Path::new("data"), NodesPerRegion::One);
        let (mut tasks, mut nodes) = (JoinSet::new(), Vec::new());
        for (_, places) in &mut layout.regions {
            for place in places {
                nodes.push(echo(place, &mut tasks).await);
            }
        }
        let wire = Wire::lay(&layout, Distances::default()).await.unwrap();
        Self { wire, nodes, _tasks: tasks }
    }

    fn entrance(&self, from: &str, to: &str) -> SocketAddr {
        self.wire.entrance(region(from), &to.parse().unwrap()).unwrap().peer
    }

    async fn connect(&self, from: &str, to: &str) -> TcpStream {
        TcpStream::connect(self.entrance(from, to)).await.unwrap()
    }

    /// Everything that a node has heard so far.
    fn heard_by(&mut self, node: &str) -> Vec<u8> {
        let node = self.nodes.iter_mut().find(|echo| echo.name.to_string() == node).unwrap();
        std::iter::from_fn(|| node.heard.try_recv().ok()).collect()
    }
}

async fn echo(place: &mut NodePlace, tasks: &mut JoinSet<()>) -> Echo {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    place.peer = listener.local_addr().unwrap();
    let (hearing, heard) = tokio::sync::mpsc::unbounded_channel();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let hearing = hearing.clone();
            connections.spawn(async move {
                while let Ok(byte) = stream.read_u8().await {
                    hearing.send(byte).unwrap();
                    if stream.write_u8(byte).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    Echo { name: place.name.clone(), heard }
}

/// Says `byte` and waits for the answer.
async fn ask(stream: &mut TcpStream, byte: u8) {
    stream.write_u8(byte).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), byte);
}

#[tokio::test]
async fn a_cut_loses_what_is_said_and_its_end_closes_the_connections_from_before() {
    let mut world = World::new().await;
    let mut to_eu = world.connect("us", "eu/1").await;
    let mut from_eu = world.connect("eu", "us/1").await;
    let mut around = world.connect("us", "ap/1").await;
    for stream in [&mut to_eu, &mut from_eu, &mut around] {
        ask(stream, 1).await;
    }
    world.wire.cut(region("eu")).unwrap();
    for stream in [&mut to_eu, &mut from_eu] {
        stream.write_u8(2).await.unwrap();
    }
    ask(&mut around, 3).await;
    world.wire.heal(region("eu")).unwrap();
    for stream in [&mut to_eu, &mut from_eu] {
        assert!(stream.read_u8().await.is_err(), "it is closed, and nothing was answered");
    }
    for (from, to) in [("us", "eu/1"), ("eu", "us/1")] {
        ask(&mut world.connect(from, to).await, 4).await;
    }
    assert_eq!(world.heard_by("eu/1"), [1, 4]);
    assert_eq!(world.heard_by("us/1"), [1, 4]);
    assert_eq!(world.heard_by("ap/1"), [1, 3]);
}

/// Tries to connect and to say something, for as long as the returned set lives.
fn call_out(to: SocketAddr, byte: u8) -> JoinSet<()> {
    let mut calling = JoinSet::new();
    calling.spawn(async move {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_u8(byte).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), byte);
    });
    calling
}

/// Closes the way to eu, opens it again, and looks at who got through when.
async fn check_closed(close: impl FnOnce(&Wire), open: impl FnOnce(&Wire)) {
    let mut world = World::new().await;
    let mut around = world.connect("us", "ap/1").await;
    ask(&mut around, 1).await;
    close(&world.wire);
    let entrance = world.entrance("us", "eu/1");
    // More than one, so that a place in the queue that is free by mistake is found.
    let mut calls: Vec<JoinSet<()>> = (2..6).map(|byte| call_out(entrance, byte)).collect();
    // No clock: whoever came through would be heard long before so many other answers.
    for _ in 0..200 {
        ask(&mut around, 1).await;
    }
    assert!(world.heard_by("eu/1").is_empty(), "nobody gets through");
    open(&world.wire);
    ask(&mut world.connect("us", "eu/1").await, 9).await;
    for call in &mut calls {
        call.join_next().await.unwrap().unwrap();
    }
    let mut heard = world.heard_by("eu/1");
    heard.sort_unstable();
    assert_eq!(heard, [2, 3, 4, 5, 9], "who is still waiting gets through");
}

#[tokio::test]
async fn nobody_connects_to_a_region_that_is_cut_off() {
    let eu = region("eu");
    check_closed(|wire| wire.cut(eu).unwrap(), |wire| wire.heal(eu).unwrap()).await;
}

#[tokio::test]
async fn nobody_connects_to_a_node_that_is_gone() {
    let node: NodeName = "eu/1".parse().unwrap();
    check_closed(|wire| wire.set_gone(&node, true), |wire| wire.set_gone(&node, false)).await;
}

#[tokio::test]
async fn the_end_of_the_wire_closes_every_connection() {
    let world = World::new().await;
    let mut stream = world.connect("ap", "us/1").await;
    ask(&mut stream, 1).await;
    world.wire.end().await;
    assert!(stream.read_u8().await.is_err());
    assert!(TcpStream::connect(world.entrance("ap", "us/1")).await.is_err());
}

#[tokio::test]
async fn what_was_done_to_a_region_shows_in_all_its_links_and_in_no_other() {
    let layout = DevLayout::new(7_700, Path::new("data"), NodesPerRegion::One);
    let wire = Wire::lay(&layout, distances(super::DEFAULT_WAN)).await.unwrap();
    let shown = |wire: &Wire| -> Vec<(bool, u128)> {
        wire.links().iter().map(|link| (link.is_cut, link.round_trip.as_millis())).collect()
    };
    wire.cut(region("eu")).unwrap();
    wire.slow(region("ap"), "500ms".parse().unwrap()).unwrap();
    assert_eq!(shown(&wire), [(true, 80), (false, 1_120), (true, 1_180)]);
    wire.heal(region("eu")).unwrap();
    wire.heal(region("ap")).unwrap();
    assert_eq!(shown(&wire), [(false, 80), (false, 120), (false, 180)]);
    assert!(wire.cut(region("mars")).is_err());
}
