//! Expectations in files, which `UPDATE_EXPECT=1` rewrites.

use std::path::{Path, PathBuf};

/// A file below `tests/`.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Compares a text with what its file says, line by line.
#[track_caller]
pub(crate) fn check(path: &Path, actual: &str) {
    if wants_rewriting() {
        std::fs::write(path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap();
    for ((actual, expected), line) in actual.lines().zip(expected.lines()).zip(1..) {
        assert_eq!(actual, expected, "{}, line {line}", path.display());
    }
    assert_eq!(actual, expected, "{} ends otherwise", path.display());
}

#[expect(clippy::disallowed_methods, reason = "the wish to rewrite comes from outside")]
fn wants_rewriting() -> bool {
    std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1")
}
