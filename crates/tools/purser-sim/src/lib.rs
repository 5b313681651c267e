//! Home, its regions, and everything that can go wrong between them, in one thread.
//!
//! The code under test is the code that ships: `purser-ledger`'s own transition functions on both
//! sides. What is made up here is the rest of the world: which call comes next, which message is
//! lost, repeated or late, whose clock is wrong, who restarts from an old backup. A seed decides all
//! of it, so a seed is a history, and the same seed is the same history.
//!
//! After every step, each ledger's invariants hold, and what could have been overspent is never more
//! than the bound says; at the end everything that was handed out has come home, to the last credit.
//! Not here: Raft, disks and sockets, which have tests of their own.

pub mod broken;
pub mod demand;
pub mod homes;
pub mod model;
pub mod site;
pub mod standbys;
pub mod story;
pub mod world;
