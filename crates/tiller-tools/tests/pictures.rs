//! Hostile images, several at once, checked by the peak memory of the whole process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tiller_tools::image::{Normalised, Resize, normalise};

/// What four images at once may take, including the program itself.
const MEMORY_MAX_BYTES: u64 = 300_000_000;

/// A minimal gif: one pixel in an image of any size.
fn gif(width: u16, height: u16) -> Vec<u8> {
    let mut data = b"GIF89a".to_vec();
    data.extend(width.to_le_bytes());
    data.extend(height.to_le_bytes());
    // A table of two colours, a frame of one pixel, its data, the trailer.
    data.extend([0x80, 0, 0, 255, 255, 255, 0, 0, 0]);
    data.extend([0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0, 0x3b]);
    data
}

/// A frame that is larger than the image.
fn gif_with_a_large_frame() -> Vec<u8> {
    let mut data = gif(2, 2);
    data[24..28].copy_from_slice(&[0x00, 0x7d, 0x00, 0x7d]);
    data
}

/// A png up to its first row, and no further.
fn png(width: u32, height: u32, depth: u8, color: u8) -> Vec<u8> {
    let mut header = b"IHDR".to_vec();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    header.extend([depth, color, 0, 0, 0]);
    let mut data = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0d".to_vec();
    data.extend(&header);
    data.extend(crc(&header).to_be_bytes());
    let body = b"IDAT\x78\x9c";
    data.extend([0, 0, 0, 2]);
    data.extend(body);
    data.extend(crc(body).to_be_bytes());
    data
}

fn crc(data: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    };
    !data.iter().fold(u32::MAX, step)
}

/// A progressive jpeg of three full components up to its first scan: nine bytes per pixel.
fn jpeg(width: u16, height: u16) -> Vec<u8> {
    let mut data = vec![0xff, 0xd8];
    data.extend([0xff, 0xdb, 0, 67, 0]);
    data.extend([1; 64]);
    data.extend([0xff, 0xc2, 0, 17, 8]);
    data.extend(height.to_be_bytes());
    data.extend(width.to_be_bytes());
    data.extend([3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0]);
    // A table with one code of one bit.
    data.extend([0xff, 0xc4, 0, 20, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    data.extend([0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 0, 0]);
    data.extend([0; 64]);
    data.extend([0xff, 0xd9]);
    data
}

/// A lossless webp of one colour.
fn webp(width: u32, height: u32) -> Vec<u8> {
    let mut stream = vec![0x2f];
    stream.extend(((width - 1) | ((height - 1) << 14)).to_le_bytes());
    // No transforms, no cache, five codes of one symbol each.
    stream.extend([0x88, 0x88, 0x88, 0x08, 0, 0, 0]);
    let mut data = b"RIFF".to_vec();
    data.extend((12 + stream.len() as u32).to_le_bytes());
    data.extend(b"WEBPVP8L");
    data.extend((stream.len() as u32).to_le_bytes());
    data.extend(stream);
    data
}

fn bmp(width: i32, height: i32) -> Vec<u8> {
    let mut data = b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
    data.extend(width.to_le_bytes());
    data.extend(height.to_le_bytes());
    data.extend([1, 0, 24, 0]);
    data.extend([0; 24]);
    data
}

fn hostile(name: &str) -> Vec<Vec<u8>> {
    match name {
        "claims" => {
            vec![
                gif(32_000, 32_000),
                png(60_000, 60_000, 16, 6),
                jpeg(65_500, 65_500),
                webp(16_383, 16_383),
                bmp(60_000, 60_000),
                gif_with_a_large_frame(),
            ]
        }
        // About as large as images may be, so that they have to take turns.
        "large" => vec![jpeg(4500, 4500), gif(4500, 4500), jpeg(4500, 4500), jpeg(4500, 4500)],
        other => panic!("{other}"),
    }
}

/// The role of tiller. Not a test: it does nothing unless the tests below start it.
#[test]
fn actor() {
    let Ok(name) = std::env::var("PICTURES") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // Scaling takes less memory than decoding, but is slow in an unoptimised build.
    let resize = if name == "large" { Resize::Never } else { Resize::ToFit };
    let pictures: Vec<_> = hostile(&name)
        .into_iter()
        .map(|data| runtime.spawn(normalise(BASE64_STANDARD.encode(data), resize)))
        .collect();
    let done: Vec<Normalised> =
        pictures.into_iter().map(|picture| runtime.block_on(picture).unwrap()).collect();
    for Normalised { image, notes } in done {
        println!("picture: {} {notes:?}", image.is_some());
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    println!("{peak}");
}

fn check(name: &str) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["actor", "--exact", "--nocapture"]).env("PICTURES", name);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{name}: {said}");
    let peak = said.lines().find_map(|line| line.split("VmHWM:").nth(1)).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak * 1024 < MEMORY_MAX_BYTES, "{name} took {peak} kB: {said}");
    said
}

#[test]
fn images_that_claim_to_be_huge_are_left_out_without_decoding() {
    let said = check("claims");
    assert_eq!(said.matches("picture: false").count(), 6, "{said}");
}

#[test]
fn four_large_images_at_once_stay_within_the_limit() {
    let said = check("large");
    assert_eq!(said.matches("picture: true").count(), 4, "{said}");
}
