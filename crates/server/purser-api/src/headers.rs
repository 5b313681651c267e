//! The headers of the contract, in lower case, as HTTP/2 writes them.

/// The caller's name for one change, required on every call that changes something.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// `true` if the answer was decided before, under the same key.
pub const IDEMPOTENT_REPLAYED: &str = "idempotent-replayed";
/// Who decided: region and role, such as `region=us, role=home`.
pub const PURSER_DECIDED_BY: &str = "purser-decided-by";
/// The overspend bound under which it was decided, in credits.
pub const PURSER_BOUND: &str = "purser-bound";
/// How old a stale read is, in milliseconds.
pub const PURSER_AGE_MS: &str = "purser-age-ms";
/// How long to wait before sending the request again, in whole seconds.
pub const RETRY_AFTER: &str = "retry-after";
/// Names the request in the service's logs; made by the service unless the caller sent one.
pub const REQUEST_ID: &str = "request-id";
/// W3C Trace Context: taken from the caller and passed on.
pub const TRACEPARENT: &str = "traceparent";
