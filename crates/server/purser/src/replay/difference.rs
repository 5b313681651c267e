//! The first thing at the service that is not as it must be, in words.

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Difference(pub(crate) String);

/// Fails if what is shown is not what is expected.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    shown: T,
    expected: T,
) -> Result<(), Difference> {
    if shown == expected {
        return Ok(());
    }
    let text = format!("{what}: the service shows {shown:?}, the book has {expected:?}");
    Err(Difference(text))
}
