//! Addresses that no parallel test takes.
//!
//! A port that the system gave is free only until somebody else asks, and a node needs its port
//! again after a restart. So each test process listens on a loopback address of its own, made from
//! its process id: the port the system gives there stays free for this process, and connections
//! made by others, which leave from 127.0.0.1, never take it.
//!
//! Where the system has no loopback address but 127.0.0.1, that one is used, and a rare clash has
//! to be borne.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// What was given out in this process. The system may give a port a second time once it is closed.
static GIVEN: Mutex<BTreeSet<SocketAddr>> = Mutex::new(BTreeSet::new());

/// An address on which this process, or one that it starts, can listen now and later.
pub fn free_address() -> SocketAddr {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let address = bound_address();
        if given.insert(address) {
            return address;
        }
    }
}

/// A base for `purser dev`, which lays its listeners out on fixed distances on 127.0.0.1.
///
/// It lies below the ports from which the system makes connections, at a place made from the
/// process id, so two test processes start to look at different places.
pub fn free_dev_base() -> u16 {
    const FIRST: u16 = 10_000;
    const STRIDE: u16 = 40;
    const PLACES: u16 = 500;
    let start = u16::try_from(std::process::id() % u32::from(PLACES)).expect("below 500");
    let mut places = (0..PLACES).map(|step| (start + step) % PLACES);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let base = places.find_map(|place| {
        let base = FIRST + place * STRIDE;
        let all_free = (base..base + STRIDE)
            .all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, base));
        (all_free && given.insert(address)).then_some(base)
    });
    base.expect("of 500 ranges of ports, one is free")
}

/// Asks the system for a port. The listener is closed at once: what is given out stays ours because
/// the address does.
fn bound_address() -> SocketAddr {
    let listener = TcpListener::bind((own_loopback(), 0))
        .or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .expect("the system has a free port");
    listener.local_addr().expect("a listener has an address")
}

/// The loopback address of this process: 127 and the lower three bytes of its id, moved by one so
/// that none is 127.0.0.x, which others use.
fn own_loopback() -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high.wrapping_add(1), middle, low)
}
