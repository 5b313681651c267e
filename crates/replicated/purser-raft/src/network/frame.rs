//! Frames on a connection between nodes: a length, a checksum, a payload.
//!
//! TCP's own checksum lets one damaged packet in some ten thousands pass; a Raft entry must not
//! depend on that.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The most bytes a frame may carry: a full append of 2 MiB, or one entry of the largest size, with
/// room to spare.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 8 << 20;

const HEADER_BYTES: usize = 8;

/// The bytes of a frame, in front of its payload.
pub(crate) fn header(payload: &[u8]) -> io::Result<[u8; HEADER_BYTES]> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the frame is too large"));
    }
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
    let mut header = [0; HEADER_BYTES];
    let (front, back) = header.split_at_mut(4);
    front.copy_from_slice(&length.to_le_bytes());
    back.copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    Ok(header)
}

pub(crate) async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    payload: &[u8],
) -> io::Result<()> {
    writer.write_all(&header(payload)?).await?;
    writer.write_all(payload).await
}

/// Reads the next frame; `None` if the peer closed the connection between two frames.
pub(crate) async fn read(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Bytes>> {
    let mut header = [0; HEADER_BYTES];
    if reader.read(&mut header[..1]).await? == 0 {
        return Ok(None);
    }
    reader.read_exact(&mut header[1..]).await?;
    let (length, crc) = header.split_at(4);
    let length = length.first_chunk::<4>().copied().map_or(0, u32::from_le_bytes);
    let length = usize::try_from(length).map_err(io::Error::other)?;
    if length > PAYLOAD_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the frame is too large"));
    }
    let mut payload = vec![0; length];
    reader.read_exact(&mut payload).await?;
    if crc32fast::hash(&payload).to_le_bytes() != crc {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the frame is damaged"));
    }
    Ok(Some(Bytes::from(payload)))
}

/// Reads the next frame; an error if there is none.
pub(crate) async fn expect(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
    read(reader).await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_damaged_or_oversized_frame_is_refused() {
        let mut bytes = Vec::new();
        write(&mut bytes, b"payload").await.unwrap();
        assert_eq!(expect(&mut &bytes[..]).await.unwrap(), "payload");
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert!(read(&mut &damaged[..]).await.is_err(), "byte {place}");
        }
        assert!(header(&vec![0; PAYLOAD_BYTES_MAX + 1]).is_err());
    }
}
