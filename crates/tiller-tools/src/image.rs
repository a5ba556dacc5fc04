//! Pictures for the model: told by their content, decoded once to be sure of them, and made small
//! enough to be sent.

use std::io::Cursor;

use ::image::codecs::jpeg::JpegEncoder;
use ::image::imageops::FilterType;
use ::image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tiller_agent::message::Block;

/// A picture larger than this in either direction is scaled down.
const SIDE_MAX_PX: u32 = 2000;
/// Providers refuse pictures of 5 MB, counted in base64; we stay clear of that.
const BASE64_MAX_BYTES: usize = 4_718_592;
/// A file larger than this is not even decoded.
pub(crate) const FILE_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// A small file can claim to be a huge picture; this is all the memory it gets.
const PIXELS_MAX_BYTES: u64 = 512 * 1024 * 1024;
/// How much of a file it takes to tell what it is.
pub(crate) const SNIFF_BYTES: u64 = 4100;

const TOO_LARGE: &str = "[Image omitted: could not be resized below the inline image size limit.]";
const UNKNOWN: &str = "[Image omitted: could not be converted to a supported inline image format.]";

/// Whether large pictures are scaled down or sent as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resize {
    #[default]
    ToFit,
    Never,
}

/// A picture ready to be sent, or the reason why there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalised {
    /// An image block, unless the picture had to be left out.
    pub image: Option<Block>,
    /// What the model should know about it, one bracketed sentence each.
    pub notes: Vec<String>,
}

impl Normalised {
    fn omitted(note: &str) -> Normalised {
        Normalised { image: None, notes: vec![note.to_owned()] }
    }

    /// What the picture is now; it need not be what it was.
    pub fn mime_type(&self) -> Option<&str> {
        match &self.image {
            Some(Block::Image { mime_type, .. }) => Some(mime_type),
            _ => None,
        }
    }
}

/// Treats a picture that came with a prompt like one that was read from a file. What the client
/// says about its type is not asked for: the content knows better, and providers check.
pub async fn normalise(data: String, resize: Resize) -> Normalised {
    let work = move || {
        let bytes = BASE64_STANDARD.decode(data.trim_ascii()).unwrap_or_default();
        match Kind::of(&bytes) {
            Some(kind) => prepare(bytes, kind, resize),
            None => Normalised::omitted(UNKNOWN),
        }
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(normalised) => normalised,
        // A decoder that panics has met a file nobody can show.
        Err(_) => Normalised::omitted(UNKNOWN),
    }
}

/// A picture as a prompt carries it, if these bytes are one.
pub fn block(bytes: &[u8]) -> Option<Block> {
    let kind = Kind::of(bytes)?;
    Some(Block::image(BASE64_STANDARD.encode(bytes), kind.mime_type()))
}

/// What a picture is, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Png,
    /// A png that moves. Providers want pictures that do not.
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
            // JPEG-LS, with 0xf7 in the fourth place, is another format.
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

    /// Whether providers take it as it is.
    fn can_be_sent(self) -> bool {
        !matches!(self, Kind::Apng | Kind::Bmp)
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

/// An animation announces itself in a chunk before the picture data.
fn is_animated(mut chunks: &[u8]) -> bool {
    while let [a, b, c, d, kind @ ..] = chunks {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if kind.starts_with(b"acTL") {
            return true;
        }
        if kind.starts_with(b"IDAT") {
            return false;
        }
        // Four bytes of kind, the data, four of checksum.
        chunks = kind.get(length.saturating_add(8)..).unwrap_or_default();
    }
    false
}

/// Two letters are not much of a sign, so the header's size, planes and depth must fit as well.
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

/// Decodes and, if need be, shrinks or converts a picture. Takes its time: not for the runtime's
/// own thread.
pub(crate) fn prepare(data: Vec<u8>, kind: Kind, resize: Resize) -> Normalised {
    let undecodable = if kind.can_be_sent() { TOO_LARGE } else { UNKNOWN };
    if data.len() as u64 > FILE_MAX_BYTES {
        return Normalised::omitted(undecodable);
    }
    let Some(picture) = decode(&data, kind) else {
        return Normalised::omitted(undecodable);
    };
    let small = picture.width() <= SIDE_MAX_PX
        && picture.height() <= SIDE_MAX_PX
        && base64_bytes(data.len()) <= BASE64_MAX_BYTES;
    if kind.can_be_sent() && (small || resize == Resize::Never) {
        let block = Block::image(BASE64_STANDARD.encode(data), kind.mime_type());
        return Normalised { image: Some(block), notes: Vec::new() };
    }
    drop(data);
    let encoded = match resize {
        Resize::ToFit => shrink(&picture),
        Resize::Never => encode(&picture, usize::MAX),
    };
    let Some(encoded) = encoded else {
        return Normalised::omitted(TOO_LARGE);
    };
    let mut notes = Vec::new();
    if !kind.can_be_sent() {
        let (from, to) = (kind.mime_type(), encoded.mime_type);
        notes.push(format!("[Image converted from {from} to {to}.]"));
    }
    if (encoded.width, encoded.height) != (picture.width(), picture.height()) {
        let factor = f64::from(picture.width()) / f64::from(encoded.width);
        notes.push(format!(
            "[Image: original {}x{}, displayed at {}x{}. Multiply coordinates by {factor:.2} to map to original image.]",
            picture.width(), picture.height(), encoded.width, encoded.height,
        ));
    }
    let block = Block::image(BASE64_STANDARD.encode(encoded.data), encoded.mime_type);
    Normalised { image: Some(block), notes }
}

fn decode(data: &[u8], kind: Kind) -> Option<DynamicImage> {
    let mut limits = Limits::default();
    limits.max_alloc = Some(PIXELS_MAX_BYTES);
    let mut reader = ImageReader::with_format(Cursor::new(data), kind.format());
    reader.limits(limits);
    let mut decoder = reader.into_decoder().ok()?;
    let orientation = decoder.orientation().ok()?;
    let mut picture = DynamicImage::from_decoder(decoder).ok()?;
    // A camera writes how it was held beside the pixels, and what we encode anew loses that.
    picture.apply_orientation(orientation);
    Some(picture)
}

struct Encoded {
    data: Vec<u8>,
    mime_type: &'static str,
    width: u32,
    height: u32,
}

/// The largest version that is within the limits.
fn shrink(picture: &DynamicImage) -> Option<Encoded> {
    let longest = picture.width().max(picture.height()).max(1);
    let mut scale = f64::from(SIDE_MAX_PX.min(longest)) / f64::from(longest);
    loop {
        let side = |px: u32| ((f64::from(px) * scale).round() as u32).max(1);
        let (width, height) = (side(picture.width()), side(picture.height()));
        let scaled =
            (scale < 1.0).then(|| picture.resize_exact(width, height, FilterType::CatmullRom));
        if let Some(encoded) = encode(scaled.as_ref().unwrap_or(picture), BASE64_MAX_BYTES) {
            return Some(encoded);
        }
        if (width, height) == (1, 1) {
            return None;
        }
        scale *= 0.75;
    }
}

/// Without loss if that is small enough, else as good as it gets.
fn encode(picture: &DynamicImage, base64_max_bytes: usize) -> Option<Encoded> {
    let (width, height) = (picture.width(), picture.height());
    let fits = |data: &Vec<u8>| base64_bytes(data.len()) <= base64_max_bytes;
    if let Some(data) = png(picture).filter(fits) {
        return Some(Encoded { data, mime_type: "image/png", width, height });
    }
    let opaque = on_white(picture);
    let data =
        [80, 85, 70, 55, 40].iter().find_map(|&quality| jpeg(&opaque, quality).filter(fits))?;
    Some(Encoded { data, mime_type: "image/jpeg", width, height })
}

fn png(picture: &DynamicImage) -> Option<Vec<u8>> {
    let mut data = Cursor::new(Vec::new());
    picture.write_to(&mut data, ImageFormat::Png).ok()?;
    Some(data.into_inner())
}

fn jpeg(picture: &RgbImage, quality: u8) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    JpegEncoder::new_with_quality(&mut data, quality).encode_image(picture).ok()?;
    Some(data)
}

/// Jpeg knows no transparency. What was drawn to be seen on a page is put on one.
fn on_white(picture: &DynamicImage) -> RgbImage {
    if !picture.color().has_alpha() {
        return picture.to_rgb8();
    }
    let mut page = RgbImage::new(picture.width(), picture.height());
    for (to, from) in page.pixels_mut().zip(picture.to_rgba8().pixels()) {
        let [red, green, blue, alpha] = from.0.map(u32::from);
        let mix = |colour: u32| ((colour * alpha + 255 * (255 - alpha)) / 255) as u8;
        to.0 = [mix(red), mix(green), mix(blue)];
    }
    page
}

fn base64_bytes(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

#[cfg(test)]
pub(crate) mod tests {
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
            let picture = decode(&data, kind).unwrap();
            lines.push(format!("{mime_type} {}x{}", picture.width(), picture.height()));
        }
        lines.join("\n") + "\n"
    }

    fn check(data: Vec<u8>, expect: Expect) {
        let kind = Kind::of(&data).unwrap();
        expect.assert_eq(&describe(&prepare(data, kind, Resize::ToFit)));
    }

    #[test]
    fn a_picture_within_the_limits_is_sent_as_it_is() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
            let data = encoded(4, 3, format);
            let normalised = prepare(data.clone(), Kind::of(&data).unwrap(), Resize::ToFit);
            let Some(Block::Image { data: sent, .. }) = normalised.image else { panic!("omitted") };
            assert_eq!(BASE64_STANDARD.decode(sent).unwrap(), data);
            assert!(normalised.notes.is_empty());
        }
    }

    #[test]
    fn others_are_made_to_fit() {
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
    fn a_picture_that_moves_is_stilled() {
        let png = encoded(2, 2, ImageFormat::Png);
        // Signature and IHDR make 33 bytes; an animation says so right after.
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
    fn noise_is_encoded_with_loss_and_then_made_smaller() {
        let mut state = 1u32;
        let noise = RgbImage::from_fn(120, 90, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [a, b, c, _] = state.to_be_bytes();
            ::image::Rgb([a, b, c])
        });
        let noise = DynamicImage::from(noise);
        let lossless = encode(&noise, usize::MAX).unwrap();
        assert_eq!(lossless.mime_type, "image/png");
        let lossy = encode(&noise, base64_bytes(lossless.data.len()) / 2).unwrap();
        assert_eq!(lossy.mime_type, "image/jpeg");
        assert!(encode(&noise, 500).is_none());
    }

    #[test]
    fn what_is_not_a_picture() {
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
    fn a_bomb_is_not_unpacked() {
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
    async fn pictures_of_prompts() {
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
