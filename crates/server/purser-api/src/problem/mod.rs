//! Refusals and errors as the caller sees them: RFC 9457 problem documents.
//!
//! Two questions decide what a caller does next: did anything happen, and is it worth sending the
//! request again, under which key? Every code answers both, in one table. Not here: which inside
//! error becomes which code; that is the server's business.

mod code;
mod document;

pub use code::{Outcome, ProblemCode, Retry};
pub use document::{Figures, Problem};
