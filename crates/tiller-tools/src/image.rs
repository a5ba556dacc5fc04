//! Prepares images for the model: detects the type by content, decodes once to verify, and scales
//! down to the providers' limits.

mod decode;
mod memory;
mod scale;

use std::fs::File;
use std::io::{self, Read};

use ::image::ImageFormat;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tiller_agent::message::Block;

use self::decode::Header;
use self::memory::{FILES, PIXELS};

/// An image larger than this in either direction is scaled down.
const SIDE_MAX_PX: u32 = 2000;
/// Providers refuse images of 5 MB, counted in base64; this leaves a margin.
const BASE64_MAX_BYTES: usize = 4_718_592;
/// How much of a file is read to detect its type.
pub(crate) const SNIFF_BYTES: u64 = 4100;

const TOO_LARGE: &str = "[Image omitted: could not be resized below the inline image size limit.]";
const UNKNOWN: &str = "[Image omitted: could not be converted to a supported inline image format.]";

/// Whether large images are scaled down or sent unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resize {
    #[default]
    ToFit,
    Never,
}

/// An image ready to be sent, or the reason why it is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalised {
    /// An image block, unless the image had to be left out.
    pub image: Option<Block>,
    /// Notes for the model about the image, each a sentence in brackets.
    pub notes: Vec<String>,
}

impl Normalised {
    fn omitted(note: &str) -> Normalised {
        Normalised { image: None, notes: vec![note.to_owned()] }
    }

    /// The type of the resulting image, which may differ from the original's.
    pub fn mime_type(&self) -> Option<&str> {
        match &self.image {
            Some(Block::Image { mime_type, .. }) => Some(mime_type),
            _ => None,
        }
    }
}

/// Processes an image from a prompt like one that was read from a file. The client's MIME type is
/// ignored: the type is detected from the content, and providers check it.
pub async fn normalise(data: String, resize: Resize) -> Normalised {
    let work = move || {
        // The first bytes give the type, and the type gives the memory needed.
        let text = data.trim_ascii().as_bytes();
        let head = text.get(..SNIFF_BYTES as usize).unwrap_or(text);
        let head = BASE64_STANDARD.decode(head).unwrap_or_default();
        let Some(kind) = Kind::of(&head) else { return Normalised::omitted(UNKNOWN) };
        let Some(_held) = FILES.reserve(file_bytes(kind, text.len() as u64 / 4 * 3)) else {
            return kind.omitted();
        };
        match BASE64_STANDARD.decode(text) {
            Ok(bytes) => prepare(bytes, kind, resize),
            Err(_) => Normalised::omitted(UNKNOWN),
        }
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(normalised) => normalised,
        // A decoder that panics has met a file that cannot be shown.
        Err(_) => Normalised::omitted(UNKNOWN),
    }
}

/// An image block with these bytes, if they are an image.
pub fn block(bytes: &[u8]) -> Option<Block> {
    let kind = Kind::of(bytes)?;
    Some(Block::image(BASE64_STANDARD.encode(bytes), kind.mime_type()))
}

/// The type of an image, detected by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Png,
    /// An animated png, which providers refuse.
    Apng,
    Jpeg,
    Gif,
    Webp,
    Bmp,
}

impl Kind {
    pub(crate) fn of(bytes: &[u8]) -> Option<Kind> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', chunks @ ..] => {
                Some(if is_animated(chunks) { Kind::Apng } else { Kind::Png })
            }
            // 0xf7 in the fourth byte is JPEG-LS, another format.
            [0xff, 0xd8, 0xff, rest @ ..] if rest.first() != Some(&0xf7) => Some(Kind::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Kind::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Kind::Webp),
            _ => is_bitmap(bytes).then_some(Kind::Bmp),
        }
    }

    pub(crate) fn mime_type(self) -> &'static str {
        match self {
            Kind::Png => "image/png",
            Kind::Apng => "image/apng",
            Kind::Jpeg => "image/jpeg",
            Kind::Gif => "image/gif",
            Kind::Webp => "image/webp",
            Kind::Bmp => "image/bmp",
        }
    }

    /// Whether providers accept this type.
    fn can_be_sent(self) -> bool {
        !matches!(self, Kind::Apng | Kind::Bmp)
    }

    /// The result for an image that cannot be decoded, or not within the memory limit.
    fn omitted(self) -> Normalised {
        Normalised::omitted(if self.can_be_sent() { TOO_LARGE } else { UNKNOWN })
    }

    fn format(self) -> ImageFormat {
        match self {
            Kind::Png | Kind::Apng => ImageFormat::Png,
            Kind::Jpeg => ImageFormat::Jpeg,
            Kind::Gif => ImageFormat::Gif,
            Kind::Webp => ImageFormat::WebP,
            Kind::Bmp => ImageFormat::Bmp,
        }
    }
}

/// An animation has an `acTL` chunk before the image data.
fn is_animated(mut chunks: &[u8]) -> bool {
    while let [a, b, c, d, kind @ ..] = chunks {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if kind.starts_with(b"acTL") {
            return true;
        }
        if kind.starts_with(b"IDAT") {
            return false;
        }
        // Four bytes of type, the data, four of checksum.
        chunks = kind.get(length.saturating_add(8)..).unwrap_or_default();
    }
    false
}

/// The two-letter magic is not enough, so the header's size, planes and depth are checked as well.
fn is_bitmap(bytes: &[u8]) -> bool {
    let word = |at: usize| Some(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let header =
        word(14).map_or(0, |low| (u32::from(word(16).unwrap_or(0)) << 16) | u32::from(low));
    let (planes, depth) = if header == 12 { (word(22), word(24)) } else { (word(26), word(28)) };
    bytes.starts_with(b"BM")
        && (header == 12 || (16..=256).contains(&header))
        && planes == Some(1)
        && matches!(depth, Some(1 | 4 | 8 | 16 | 24 | 32))
}

/// Reads an image whose first bytes were already read. Slow: run it on a blocking thread.
pub(crate) fn read(
    kind: Kind,
    head: Vec<u8>,
    file: File,
    resize: Resize,
) -> io::Result<Normalised> {
    let length = file.metadata()?.len();
    let Some(_held) = FILES.reserve(file_bytes(kind, length)) else {
        return Ok(kind.omitted());
    };
    let mut data = head;
    // The file may have grown since, but only this much memory is reserved.
    file.take(length.saturating_sub(data.len() as u64)).read_to_end(&mut data)?;
    Ok(prepare(data, kind, resize))
}

/// The memory needed to hold a file and read its header. The library copies a jpeg.
fn file_bytes(kind: Kind, length: u64) -> u64 {
    let copies = if kind == Kind::Jpeg { 2 } else { 1 };
    copies * length.min(u64::MAX / 4) + decode::OVERHEAD_BYTES
}

/// Decodes and, if necessary, shrinks or converts an image whose memory is reserved.
fn prepare(data: Vec<u8>, kind: Kind, resize: Resize) -> Normalised {
    let Some(header) = Header::read(&data, kind) else {
        return kind.omitted();
    };
    let (width, height) = (header.width, header.height);
    let small = width <= SIDE_MAX_PX
        && height <= SIDE_MAX_PX
        && base64_bytes(data.len()) <= BASE64_MAX_BYTES;
    let as_it_is = kind.can_be_sent() && (small || resize == Resize::Never);
    let Some(_held) = PIXELS.reserve(memory_bytes(&header, as_it_is, resize)) else {
        return kind.omitted();
    };
    let Some((picture, orientation)) = header.decode() else {
        return kind.omitted();
    };
    if as_it_is {
        drop(picture);
        let block = Block::image(BASE64_STANDARD.encode(data), kind.mime_type());
        return Normalised { image: Some(block), notes: Vec::new() };
    }
    drop(data);
    let encoded = match resize {
        Resize::ToFit => scale::shrink(picture, orientation),
        Resize::Never => {
            let mut picture = picture;
            picture.apply_orientation(orientation);
            scale::encode(&picture, usize::MAX)
        }
    };
    let Some(encoded) = encoded else {
        return Normalised::omitted(TOO_LARGE);
    };
    let mut notes = Vec::new();
    if !kind.can_be_sent() {
        let from = kind.mime_type();
        let to = encoded.mime_type;
        notes.push(format!("[Image converted from {from} to {to}.]"));
    }
    if (encoded.width, encoded.height) != (width, height) {
        let factor = f64::from(width) / f64::from(encoded.width);
        notes.push(format!(
            "[Image: original {width}x{height}, displayed at {}x{}. Multiply coordinates by {factor:.2} to map to original image.]",
            encoded.width, encoded.height,
        ));
    }
    let block = Block::image(BASE64_STANDARD.encode(encoded.data), encoded.mime_type);
    Normalised { image: Some(block), notes }
}

/// The peak memory from decoding to encoding.
fn memory_bytes(header: &Header<'_>, as_it_is: bool, resize: Resize) -> u64 {
    let Header { width, height, pixel_bytes, working_bytes, .. } = *header;
    let pixels = u64::from(width) * u64::from(height);
    let bytes_of = |width: u32, height: u32| {
        let part = u64::from(width) * u64::from(height);
        // Rounded up, and 0 for an image without pixels.
        part * pixel_bytes.div_ceil(pixels.max(1))
    };
    let after = match resize {
        _ if as_it_is => 0,
        // One rotated copy, and one encoded.
        Resize::Never => 2 * pixel_bytes,
        Resize::ToFit => {
            let (new_width, new_height) = scale::fitting(width, height);
            let shallow = if header.is_deep() { pixel_bytes / 2 } else { 0 };
            // A rotated image is scaled in the other direction first.
            let halfway = bytes_of(width, new_height).max(bytes_of(new_width, height));
            let done = bytes_of(new_width, new_height);
            shallow.max(halfway + done).max(3 * done) + scale::OVERHEAD_BYTES
        }
    };
    pixel_bytes.saturating_add(working_bytes.max(after))
}

fn base64_bytes(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Cursor;

    use ::image::DynamicImage;
    use expect_test::{Expect, expect};

    use super::*;

    fn encoded(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let mut data = Cursor::new(Vec::new());
        DynamicImage::new_rgb8(width, height).write_to(&mut data, format).unwrap();
        data.into_inner()
    }

    pub(crate) fn bmp(width: u32, height: u32) -> Vec<u8> {
        encoded(width, height, ImageFormat::Bmp)
    }

    fn describe(normalised: &Normalised) -> String {
        let mut lines = normalised.notes.clone();
        if let Some(Block::Image { data, mime_type }) = &normalised.image {
            let data = BASE64_STANDARD.decode(data).unwrap();
            let kind = Kind::of(&data).unwrap();
            assert_eq!(kind.mime_type(), mime_type);
            let picture = Header::read(&data, kind).unwrap().decode().unwrap().0;
            lines.push(format!("{mime_type} {}x{}", picture.width(), picture.height()));
        }
        lines.join("\n") + "\n"
    }

    fn check(data: Vec<u8>, expect: Expect) {
        let kind = Kind::of(&data).unwrap();
        expect.assert_eq(&describe(&prepare(data, kind, Resize::ToFit)));
    }

    #[test]
    fn image_within_limits_is_unchanged() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
            let data = encoded(4, 3, format);
            let normalised = prepare(data.clone(), Kind::of(&data).unwrap(), Resize::ToFit);
            let Some(Block::Image { data: sent, .. }) = normalised.image else { panic!("omitted") };
            assert_eq!(BASE64_STANDARD.decode(sent).unwrap(), data);
            assert!(normalised.notes.is_empty());
        }
    }

    #[test]
    fn large_images_are_scaled_down() {
        check(
            encoded(3000, 150, ImageFormat::Png),
            expect![[r#"
                [Image: original 3000x150, displayed at 2000x100. Multiply coordinates by 1.50 to map to original image.]
                image/png 2000x100
            "#]],
        );
        check(
            encoded(2500, 10, ImageFormat::Gif),
            expect![[r#"
                [Image: original 2500x10, displayed at 2000x8. Multiply coordinates by 1.25 to map to original image.]
                image/png 2000x8
            "#]],
        );
        check(
            bmp(2500, 1),
            expect![[r#"
                [Image converted from image/bmp to image/png.]
                [Image: original 2500x1, displayed at 2000x1. Multiply coordinates by 1.25 to map to original image.]
                image/png 2000x1
            "#]],
        );
    }

    #[test]
    fn animated_png_becomes_a_still_image() {
        let png = encoded(2, 2, ImageFormat::Png);
        // Signature and IHDR are 33 bytes; `acTL` follows.
        let mut data = png[..33].to_vec();
        data.extend(8u32.to_be_bytes());
        data.extend(b"acTL\x00\x00\x00\x01\x00\x00\x00\x00");
        data.extend(0xb92d_e988u32.to_be_bytes());
        data.extend(&png[33..]);
        assert_eq!(Kind::of(&data), Some(Kind::Apng));
        check(
            data,
            expect![[r#"
                [Image converted from image/apng to image/png.]
                image/png 2x2
            "#]],
        );
    }

    #[test]
    fn non_images_are_left_out() {
        let texts: [&[u8]; 7] = [
            b"",
            b"BM",
            b"BMW is a maker of cars and of some motorcycles",
            b"GIF files are",
            b"RIFF",
            b"\x89PNG",
            b"\xff\xd8\xff\xf7",
        ];
        for text in texts {
            assert_eq!(Kind::of(text), None, "{text:?}");
        }
    }

    #[test]
    fn decompression_bomb_is_not_decoded() {
        // A header that claims 65535 by 65535 pixels.
        let mut data = bmp(1, 1);
        data[18..22].copy_from_slice(&65_535u32.to_le_bytes());
        data[22..26].copy_from_slice(&65_535u32.to_le_bytes());
        check(
            data,
            expect![[r#"
                [Image omitted: could not be converted to a supported inline image format.]
            "#]],
        );
    }

    #[tokio::test]
    async fn prompt_images_are_normalised() {
        let text = BASE64_STANDARD.encode(encoded(2500, 10, ImageFormat::Png));
        expect![[r#"
            [Image: original 2500x10, displayed at 2000x8. Multiply coordinates by 1.25 to map to original image.]
            image/png 2000x8
        "#]]
        .assert_eq(&describe(&normalise(text, Resize::ToFit).await));
        for nonsense in ["", "not base64!", "aGVsbG8="] {
            expect![[r#"
                [Image omitted: could not be converted to a supported inline image format.]
            "#]]
            .assert_eq(&describe(&normalise(nonsense.to_owned(), Resize::ToFit).await));
        }
    }
}
