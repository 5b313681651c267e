//! Writes and reads one snapshot file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use purser_types::CorruptSnapshot;

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::OpenError;
use crate::ids::{ClusterId, GroupId};

use super::format::{
    CHUNK_HEADER_BYTES, Covered, FOOTER_BYTES, HEADER_BYTES, Manifest, chunk_checksum,
    decode_footer, encode_footer, encode_header, wide,
};

/// A snapshot file whose manifest was read and is sound. Clones are cheap; the bytes stay readable
/// when the file is removed.
#[derive(Clone)]
pub(crate) struct SnapshotFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    manifest: Arc<Manifest>,
}

impl SnapshotFile {
    /// Writes a new file at `path` and makes its bytes, not yet its name, durable.
    pub(crate) fn write(
        disk: &dyn Disk,
        path: &Path,
        (cluster, group): (ClusterId, GroupId),
        covered: Covered,
        chunks: impl Iterator<Item = Vec<u8>>,
    ) -> io::Result<Self> {
        let file = disk.open(path, OpenMode::Create)?;
        let header = encode_header(cluster, group);
        file.write_at(&header, 0)?;
        let mut offset = wide(header.len());
        let mut manifest = Manifest { covered, chunks: Vec::new() };
        for (number, chunk) in chunks.enumerate() {
            let length = u32::try_from(chunk.len()).map_err(io::Error::other)?;
            let crc = chunk_checksum(number, &chunk);
            let mut bytes = Vec::with_capacity(CHUNK_HEADER_BYTES + chunk.len());
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&crc.to_le_bytes());
            bytes.extend_from_slice(&chunk);
            file.write_at(&bytes, offset)?;
            offset += wide(bytes.len());
            manifest.chunks.push((length, crc));
        }
        let mut end = manifest.encode();
        end.extend(encode_footer(&end, offset));
        file.write_at(&end, offset)?;
        file.sync_data()?;
        Ok(Self { path: path.to_path_buf(), file, manifest: Arc::new(manifest) })
    }

    /// Opens a file and checks all of it but the chunks.
    pub(crate) fn open(
        disk: &dyn Disk,
        path: &Path,
        (cluster, group): (ClusterId, GroupId),
    ) -> Result<Self, OpenError> {
        let disk_error = |source| OpenError::Disk { path: path.to_path_buf(), source };
        let damaged = |offset, detail: &str| OpenError::Damaged {
            file: path.to_path_buf(),
            offset,
            detail: detail.to_owned(),
        };
        let file = disk.open(path, OpenMode::Read).map_err(disk_error)?;
        let length = file.length().map_err(disk_error)?;
        let Some(footer_at) = length.checked_sub(wide(FOOTER_BYTES + HEADER_BYTES)) else {
            return Err(damaged(length, "the file ends too early"));
        };
        let footer_at = footer_at + wide(HEADER_BYTES);
        let mut header = [0; HEADER_BYTES];
        file.read_at(&mut header, 0).map_err(disk_error)?;
        if header[..] != encode_header(cluster, group) {
            return Err(damaged(0, "not the header of a snapshot of this group"));
        }
        let mut footer = [0; FOOTER_BYTES];
        file.read_at(&mut footer, footer_at).map_err(disk_error)?;
        let footer = decode_footer(&footer, length).map_err(|error| damaged(footer_at, error.0))?;
        let Some(manifest_at) = footer_at.checked_sub(wide(footer.manifest_bytes)) else {
            return Err(damaged(footer_at, "the manifest is longer than the file"));
        };
        let mut bytes = vec![0; footer.manifest_bytes];
        file.read_at(&mut bytes, manifest_at).map_err(disk_error)?;
        if !footer.matches(&bytes) {
            return Err(damaged(manifest_at, "the manifest does not match its checksum"));
        }
        let manifest = Manifest::decode(&bytes).map_err(|error| damaged(manifest_at, error.0))?;
        if manifest.body_bytes() != manifest_at {
            return Err(damaged(manifest_at, "the manifest does not describe this file"));
        }
        Ok(Self { path: path.to_path_buf(), file, manifest: Arc::new(manifest) })
    }

    pub(crate) fn covered(&self) -> &Covered {
        &self.manifest.covered
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The same file under its new name.
    pub(super) fn renamed(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }

    /// Writes the same snapshot at another place, durably but for its name.
    pub(super) fn copy(
        &self,
        disk: &dyn Disk,
        path: &Path,
        whose: (ClusterId, GroupId),
    ) -> Result<Self, OpenError> {
        let error_at = |source| OpenError::Disk { path: path.to_path_buf(), source };
        self.restore(|chunks| {
            Ok(Self::write(disk, path, whose, self.covered().clone(), chunks).map_err(error_at))
        })?
    }

    /// Bytes of the whole file.
    pub(crate) fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    /// Bytes of the file as they are, for sending them elsewhere.
    pub(crate) fn raw(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.file.read_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Gives the chunks to `restore`, each checked. An error names file and offset.
    pub(crate) fn restore<T>(
        &self,
        restore: impl FnOnce(&mut dyn Iterator<Item = Vec<u8>>) -> Result<T, CorruptSnapshot>,
    ) -> Result<T, OpenError> {
        let mut chunks =
            Chunks { snapshot: self, number: 0, offset: wide(HEADER_BYTES), error: None };
        let restored = restore(&mut chunks);
        // A damaged chunk ends the iteration early, which the machine may notice or not; what the
        // disk said counts first.
        if let Some(error) = chunks.error {
            return Err(error);
        }
        if chunks.number < self.manifest.chunks.len() {
            // A machine that does not want all of its chunks did not write them.
            restored?;
            return Err(CorruptSnapshot("chunks left over".into()).into());
        }
        Ok(restored?)
    }

    /// Checks the chunks without using them.
    pub(crate) fn check_chunks(&self) -> Result<(), OpenError> {
        self.restore(|chunks| {
            chunks.for_each(drop);
            Ok(())
        })
    }
}

/// Reads one chunk after the other.
struct Chunks<'a> {
    snapshot: &'a SnapshotFile,
    number: usize,
    offset: u64,
    error: Option<OpenError>,
}

impl Iterator for Chunks<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.error.is_some() {
            return None;
        }
        let (length, crc) = *self.snapshot.manifest.chunks.get(self.number)?;
        match self.read(length, crc) {
            Ok(chunk) => {
                self.number += 1;
                self.offset += wide(CHUNK_HEADER_BYTES + chunk.len());
                Some(chunk)
            }
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }
}

impl Chunks<'_> {
    fn read(&self, length: u32, crc: u32) -> Result<Vec<u8>, OpenError> {
        let path = || self.snapshot.path.clone();
        let disk_error = |source| OpenError::Disk { path: path(), source };
        let bytes = usize::try_from(length).map_err(|error| disk_error(io::Error::other(error)))?;
        let mut chunk =
            self.snapshot.raw(self.offset, CHUNK_HEADER_BYTES + bytes).map_err(disk_error)?;
        let header: Vec<u8> = chunk.drain(..CHUNK_HEADER_BYTES).collect();
        let expected = [length.to_le_bytes(), crc.to_le_bytes()].concat();
        if header == expected && chunk_checksum(self.number, &chunk) == crc {
            return Ok(chunk);
        }
        let detail = format!("chunk {} does not match its checksum", self.number);
        Err(OpenError::Damaged { file: path(), offset: self.offset, detail })
    }
}
