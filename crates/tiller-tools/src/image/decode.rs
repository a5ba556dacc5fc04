//! Decodes images, with the memory needed known before any pixel is decoded.

use std::io::Cursor;

use ::image::metadata::Orientation;
use ::image::{DynamicImage, ImageDecoder, ImageReader, Limits};

use super::Kind;

/// The longest side that jpeg and gif can have.
const SIDE_MAX_PX: u32 = 65_535;
/// Memory for profiles, tables and rows beside the pixels.
pub(super) const OVERHEAD_BYTES: u64 = 4 * 1024 * 1024;

/// An image of which only the header was read.
pub(super) struct Header<'a> {
    decoder: Box<dyn ImageDecoder + 'a>,
    orientation: Orientation,
    /// The size as displayed, after applying the orientation.
    pub(super) width: u32,
    pub(super) height: u32,
    /// The size of the decoded pixels.
    pub(super) pixel_bytes: u64,
    /// What the decoder needs in addition while it works.
    pub(super) working_bytes: u64,
}

impl<'a> Header<'a> {
    pub(super) fn read(data: &'a [u8], kind: Kind) -> Option<Header<'a>> {
        let mut limits = Limits::default();
        limits.max_image_width = Some(SIDE_MAX_PX);
        limits.max_image_height = Some(SIDE_MAX_PX);
        limits.max_alloc = Some(OVERHEAD_BYTES);
        let mut reader = ImageReader::with_format(Cursor::new(data), kind.format());
        reader.limits(limits.clone());
        let mut decoder: Box<dyn ImageDecoder + 'a> = Box::new(reader.into_decoder().ok()?);
        let (width, height) = decoder.dimensions();
        let pixel_bytes = decoder.total_bytes();
        let working_bytes = match kind {
            // A frame smaller than the image is decoded into a buffer of its own.
            Kind::Gif => pixel_bytes,
            // The planes or transformed pixels, a frame, and the canvas of an animation.
            Kind::Webp => 12 * u64::from(width) * u64::from(height),
            Kind::Jpeg => jpeg_coefficient_bytes(data, width, height),
            Kind::Png | Kind::Apng | Kind::Bmp => 0,
        } + OVERHEAD_BYTES;
        limits.max_alloc = Some(working_bytes);
        decoder.set_limits(limits).ok()?;
        let orientation = decoder.orientation().ok()?;
        let (width, height) =
            if swaps_sides(orientation) { (height, width) } else { (width, height) };
        Some(Header { decoder, orientation, width, height, pixel_bytes, working_bytes })
    }

    /// Whether pixels have more than eight bits per channel.
    pub(super) fn is_deep(&self) -> bool {
        let color = self.decoder.color_type();
        color.bytes_per_pixel() > color.channel_count()
    }

    /// The pixels as stored, and the orientation to apply.
    pub(super) fn decode(self) -> Option<(DynamicImage, Orientation)> {
        let picture = DynamicImage::from_decoder(self.decoder).ok()?;
        Some((picture, self.orientation))
    }
}

pub(super) fn swaps_sides(orientation: Orientation) -> bool {
    matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    )
}

/// A jpeg whose components come in several scans is decoded as a whole before there are pixels: two
/// bytes per sample and component. Others are decoded row by row.
fn jpeg_coefficient_bytes(data: &[u8], width: u32, height: u32) -> u64 {
    let padded = |side: u32| u64::from(side).next_multiple_of(32);
    let samples = padded(width) * padded(height);
    match scan_components(data) {
        Some(Components { in_one_scan: true, .. }) => 0,
        Some(Components { samples: (some, all), .. }) => 2 * samples * some / all,
        // Unknown structure: assume the maximum of four components.
        None => 2 * samples * 4,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Components {
    in_one_scan: bool,
    /// Samples per pixels, as a ratio.
    samples: (u64, u64),
}

/// Reads the segments of a jpeg up to the first scan. `None` for anything unusual.
fn scan_components(data: &[u8]) -> Option<Components> {
    const START_OF_SCAN: u8 = 0xda;
    const PROGRESSIVE: u8 = 0xc2;
    let mut rest = data.strip_prefix(&[0xff, 0xd8])?;
    let mut frame: Option<(u8, &[u8])> = None;
    while let [0xff, marker, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).checked_sub(2)?;
        let (segment, following) = after.split_at_checked(length)?;
        match *marker {
            0xc0..=PROGRESSIVE if frame.is_none() => frame = Some((*marker, segment)),
            // Tables and application data.
            0xc4 | 0xdb | 0xdd | 0xe0..=0xef | 0xfe => {}
            START_OF_SCAN => {
                let (marker, frame) = frame?;
                let components = frame.get(6..)?.chunks_exact(3).map(|component| component[1]);
                let counts = |(h, v): (u64, u64)| h * v;
                let factors = components.map(|both| (u64::from(both >> 4), u64::from(both & 15)));
                let factors: Vec<(u64, u64)> = factors.collect();
                let h_max = factors.iter().map(|(h, _)| *h).max()?;
                let v_max = factors.iter().map(|(_, v)| *v).max()?;
                let all = h_max * v_max;
                let in_one_scan = marker != PROGRESSIVE
                    && usize::from(*segment.first()?) == factors.len()
                    && usize::from(*frame.get(5)?) == factors.len();
                let some = factors.into_iter().map(counts).sum();
                return (all > 0).then_some(Components { in_one_scan, samples: (some, all) });
            }
            _ => return None,
        }
        rest = following;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A jpeg up to its first scan.
    fn jpeg(marker: u8, sampling: &[u8], in_first_scan: u8) -> Vec<u8> {
        let mut data = vec![0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 1, 0xff, marker];
        data.extend((8 + 3 * sampling.len() as u16).to_be_bytes());
        data.extend([8, 0, 10, 0, 10, sampling.len() as u8]);
        data.extend(sampling.iter().flat_map(|&factors| [1, factors, 0]));
        data.extend([0xff, 0xda, 0, 3, in_first_scan]);
        data
    }

    #[test]
    fn jpeg_in_several_scans_counts_its_coefficients() {
        let one = |samples| Some(Components { in_one_scan: true, samples });
        let several = |samples| Some(Components { in_one_scan: false, samples });
        let cases = [
            (jpeg(0xc0, &[0x11], 1), one((1, 1))),
            (jpeg(0xc0, &[0x22, 0x11, 0x11], 3), one((6, 4))),
            (jpeg(0xc0, &[0x11, 0x11, 0x11], 1), several((3, 1))),
            (jpeg(0xc2, &[0x22, 0x11, 0x11], 3), several((6, 4))),
            // Anything unusual counts as the worst case.
            (jpeg(0xc0, &[], 0), None),
            (jpeg(0xc9, &[0x11], 1), None),
            (vec![0xff, 0xd8, 0xff], None),
        ];
        for (data, expected) in cases {
            assert_eq!(scan_components(&data), expected, "{data:x?}");
        }
    }
}
