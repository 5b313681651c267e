//! Expectations of tests in files, which `UPDATE_EXPECT=1` rewrites, and the bytes that golden tests
//! pin.
//!
//! Only tests use this, and it fails as they do: by panicking.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use minicbor::{Decode, Encode};
use purser_types::codec;

/// Where a crate keeps what its tests expect. `crate_dir` is `env!("CARGO_MANIFEST_DIR")`.
pub fn path(crate_dir: &str, name: &str) -> PathBuf {
    Path::new(crate_dir).join("tests").join(name)
}

/// Compares a text with what its file says, line by line.
///
/// # Panics
///
/// If they differ, or the file cannot be read or written.
#[track_caller]
pub fn check(path: &Path, actual: &str) {
    if std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1") {
        std::fs::write(path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap();
    for ((actual, expected), line) in actual.lines().zip(expected.lines()).zip(1..) {
        assert_eq!(actual, expected, "{}, line {line}", path.display());
    }
    assert_eq!(actual, expected, "{} ends otherwise", path.display());
}

/// Compares the bytes of named values with a file, and the values with what the file's bytes say.
///
/// # Panics
///
/// If they differ.
#[track_caller]
pub fn check_bytes<N, T>(path: &Path, values: &[(N, T)])
where
    N: AsRef<str>,
    T: Encode<()> + for<'b> Decode<'b, ()> + PartialEq + Debug,
{
    let line =
        |(name, value): &(N, T)| format!("{} {}\n", name.as_ref(), hex(&codec::encode(value)));
    check(path, &values.iter().map(line).collect::<String>());

    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(kept.lines().count(), values.len());
    for (line, (_, value)) in kept.lines().zip(values) {
        let bytes = unhex(line.split_once(' ').unwrap().1);
        assert_eq!(&codec::decode::<T>(&bytes).unwrap(), value, "{line}");
    }
}

/// Compares a snapshot's chunks with a file, and returns those that the file says.
///
/// # Panics
///
/// If they differ.
#[track_caller]
pub fn check_chunks(path: &Path, chunks: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    check(path, &chunks.map(|chunk| hex(&chunk) + "\n").collect::<String>());
    std::fs::read_to_string(path).unwrap().lines().map(unhex).collect()
}

/// Bytes that are no value.
///
/// # Panics
///
/// If they are read as one.
#[track_caller]
pub fn check_unreadable<T: for<'b> Decode<'b, ()> + Debug>(bytes: &[u8]) {
    let decoded = codec::decode::<T>(bytes);
    assert!(decoded.is_err(), "{} is read as {decoded:?}", hex(bytes));
}

/// The number under which an enum's variant is written.
///
/// # Panics
///
/// If the value is not written as a variant.
pub fn variant<T: Encode<()>>(value: &T) -> u32 {
    let bytes = codec::encode(value);
    let mut decoder = minicbor::Decoder::new(&bytes);
    assert_eq!(decoder.array().unwrap(), Some(2));
    decoder.u32().unwrap()
}

/// A variant with a number and no fields.
pub fn variant_bytes(number: u32) -> Vec<u8> {
    let nothing: [u8; 0] = [];
    codec::encode(&(number, nothing))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}
