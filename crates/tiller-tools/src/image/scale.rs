//! Scales images down to the limits, with little more memory than the image itself.

use std::io::Cursor;

use ::image::codecs::jpeg::JpegEncoder;
use ::image::imageops::FilterType;
use ::image::metadata::Orientation;
use ::image::{ColorType, DynamicImage, ImageBuffer, ImageFormat, RgbImage};

use super::{BASE64_MAX_BYTES, SIDE_MAX_PX, base64_bytes};

/// How many pixels are scaled at a time: the library takes sixteen bytes for each.
const STRIP_PX: u32 = 64 * 1024;
/// Memory for scaling and encoding, beside the image before and after.
pub(super) const OVERHEAD_BYTES: u64 = 8 * 1024 * 1024;

pub(super) struct Encoded {
    pub(super) data: Vec<u8>,
    pub(super) mime_type: &'static str,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// The size that fits within the longest allowed side.
pub(super) fn fitting(width: u32, height: u32) -> (u32, u32) {
    let longest = width.max(height).max(1);
    scaled((width, height), f64::from(SIDE_MAX_PX.min(longest)) / f64::from(longest))
}

fn scaled((width, height): (u32, u32), scale: f64) -> (u32, u32) {
    let side = |px: u32| ((f64::from(px) * scale).round() as u32).max(1);
    (side(width), side(height))
}

/// The largest version that is within the limits.
pub(super) fn shrink(picture: DynamicImage, orientation: Orientation) -> Option<Encoded> {
    let (width, height) = fitting(picture.width(), picture.height());
    let mut picture = resize(picture, width, height);
    // Encoding drops the camera's orientation tag, so it is applied to the pixels first.
    picture.apply_orientation(orientation);
    let first = (picture.width(), picture.height());
    let mut scale = 1.0;
    loop {
        if let Some(encoded) = encode(&picture, BASE64_MAX_BYTES) {
            return Some(encoded);
        }
        if (picture.width(), picture.height()) == (1, 1) {
            return None;
        }
        scale *= 0.75;
        let (width, height) = scaled(first, scale);
        picture = resize(picture, width, height);
    }
}

/// Eight bits per channel are enough for an image that loses detail anyway.
fn resize(picture: DynamicImage, width: u32, height: u32) -> DynamicImage {
    if (picture.width(), picture.height()) == (width, height) {
        return picture;
    }
    let color = picture.color();
    let picture = match (color.has_color(), color.has_alpha()) {
        (false, false) => DynamicImage::from(picture.into_luma8()),
        (false, true) => DynamicImage::from(picture.into_luma_alpha8()),
        (true, false) => DynamicImage::from(picture.into_rgb8()),
        (true, true) => DynamicImage::from(picture.into_rgba8()),
    };
    resize_height(picture, height).and_then(|low| resize_width(low, width)).unwrap_or_default()
}

/// Works in strips of columns. `None` never happens: all strips have the expected sizes.
fn resize_height(from: DynamicImage, height: u32) -> Option<DynamicImage> {
    let strip = (STRIP_PX / from.height().max(height)).max(1);
    let pixel = usize::from(from.color().bytes_per_pixel());
    let row = from.width() as usize * pixel;
    let mut bytes = vec![0; row * height as usize];
    for x in (0..from.width()).step_by(strip as usize) {
        let columns = strip.min(from.width() - x);
        let piece = from.crop_imm(x, 0, columns, from.height());
        let piece = piece.resize_exact(columns, height, FilterType::CatmullRom);
        let (start, length) = (x as usize * pixel, columns as usize * pixel);
        for (to, from) in bytes.chunks_exact_mut(row).zip(piece.as_bytes().chunks_exact(length)) {
            to.get_mut(start..start + length)?.copy_from_slice(from);
        }
    }
    with_bytes(from.color(), from.width(), height, bytes)
}

/// Works in strips of rows.
fn resize_width(from: DynamicImage, width: u32) -> Option<DynamicImage> {
    let strip = (STRIP_PX / from.width().max(width)).max(1);
    let pixel = usize::from(from.color().bytes_per_pixel());
    let mut bytes = Vec::with_capacity(width as usize * from.height() as usize * pixel);
    for y in (0..from.height()).step_by(strip as usize) {
        let rows = strip.min(from.height() - y);
        let piece = from.crop_imm(0, y, from.width(), rows);
        let piece = piece.resize_exact(width, rows, FilterType::CatmullRom);
        bytes.extend_from_slice(piece.as_bytes());
    }
    with_bytes(from.color(), width, from.height(), bytes)
}

fn with_bytes(color: ColorType, width: u32, height: u32, bytes: Vec<u8>) -> Option<DynamicImage> {
    match color {
        ColorType::L8 => ImageBuffer::from_raw(width, height, bytes).map(DynamicImage::ImageLuma8),
        ColorType::La8 => {
            ImageBuffer::from_raw(width, height, bytes).map(DynamicImage::ImageLumaA8)
        }
        ColorType::Rgb8 => ImageBuffer::from_raw(width, height, bytes).map(DynamicImage::ImageRgb8),
        ColorType::Rgba8 => {
            ImageBuffer::from_raw(width, height, bytes).map(DynamicImage::ImageRgba8)
        }
        _ => None,
    }
}

/// Encodes as png if that is small enough, otherwise as jpeg in the best quality that fits.
pub(super) fn encode(picture: &DynamicImage, base64_max_bytes: usize) -> Option<Encoded> {
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

/// Jpeg has no transparency, so the image is drawn on a white background.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reproducible noise.
    fn noise(width: u32, height: u32) -> RgbImage {
        let mut state = 1u32;
        RgbImage::from_fn(width, height, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [a, b, c, _] = state.to_be_bytes();
            ::image::Rgb([a, b, c])
        })
    }

    #[test]
    fn noise_is_encoded_as_jpeg_and_then_scaled_down() {
        let noise = DynamicImage::from(noise(120, 90));
        let lossless = encode(&noise, usize::MAX).unwrap();
        assert_eq!(lossless.mime_type, "image/png");
        let lossy = encode(&noise, base64_bytes(lossless.data.len()) / 2).unwrap();
        assert_eq!(lossy.mime_type, "image/jpeg");
        assert!(encode(&noise, 500).is_none());
    }

    #[test]
    fn scaling_in_strips_equals_scaling_at_once() {
        // A gradient in each colour, so that a misplaced strip shows.
        let slopes = RgbImage::from_fn(1600, 700, |x, y| {
            ::image::Rgb([(x / 7) as u8, (y / 3) as u8, ((x + y) / 10) as u8])
        });
        let slopes = DynamicImage::from(slopes);
        let at_once = slopes.resize_exact(1100, 481, FilterType::CatmullRom);
        let in_strips = resize(slopes, 1100, 481);
        assert_eq!(in_strips.as_bytes().len(), at_once.as_bytes().len());
        let pairs = in_strips.as_bytes().iter().zip(at_once.as_bytes());
        let furthest = pairs.map(|(a, b)| a.abs_diff(*b)).max();
        // The intermediate result is rounded once more.
        assert!(furthest <= Some(2), "{furthest:?}");
    }
}
