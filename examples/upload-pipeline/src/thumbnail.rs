//! Thumbnails of PNG and JPEG images, in bounded memory.

use std::io::Cursor;

use bytes::Bytes;
use image::{DynamicImage, ImageFormat, ImageReader, Limits};

/// The longer side of a thumbnail.
const SIDE: u32 = 320;
/// The longer side of an image.
const SIDE_MAX: u32 = 12_000;
/// The pixels of an image may need so many bytes.
const PIXEL_BYTES_MAX: u64 = 256 << 20;
/// The file of an image is read whole.
pub(crate) const FILE_BYTES_MAX: i64 = 32 << 20;

/// A thumbnail, and the size of the image.
pub(crate) struct Thumbnail {
    pub(crate) bytes: Vec<u8>,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// Decodes and scales; an error is for the person who sent the image.
pub(crate) fn thumbnail(bytes: &Bytes, kind: &str) -> Result<Thumbnail, String> {
    let format = match kind {
        "png" => ImageFormat::Png,
        _ => ImageFormat::Jpeg,
    };
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_image_width = Some(SIDE_MAX);
    limits.max_image_height = Some(SIDE_MAX);
    limits.max_alloc = Some(PIXEL_BYTES_MAX);
    reader.limits(limits);
    let image = reader
        .decode()
        .map_err(|error| format!("the image cannot be read: {error}"))?;
    let (width, height) = (image.width(), image.height());
    let small = image.thumbnail(SIDE.min(width), SIDE.min(height));
    let small = match format {
        ImageFormat::Jpeg => DynamicImage::ImageRgb8(small.to_rgb8()),
        _ => DynamicImage::ImageRgba8(small.to_rgba8()),
    };
    let mut bytes = Vec::new();
    let written = small.write_to(&mut Cursor::new(&mut bytes), format);
    written.map_err(|error| format!("the thumbnail cannot be written: {error}"))?;
    Ok(Thumbnail {
        bytes,
        width,
        height,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_scaled_and_a_broken_one_is_refused() {
        let image = DynamicImage::new_rgb8(900, 300);
        for (kind, format) in [("png", ImageFormat::Png), ("jpeg", ImageFormat::Jpeg)] {
            let mut bytes = Vec::new();
            image
                .write_to(&mut Cursor::new(&mut bytes), format)
                .expect("an image");
            let made = thumbnail(&bytes.clone().into(), kind).expect("a thumbnail");
            assert_eq!((made.width, made.height), (900, 300));
            let small = image::load_from_memory(&made.bytes).expect("an image");
            assert_eq!((small.width(), small.height()), (320, 107));
            bytes.truncate(bytes.len() / 2);
            assert!(thumbnail(&bytes.into(), kind).is_err() || kind == "jpeg");
        }
    }

    #[test]
    fn an_image_with_too_many_pixels_is_refused_by_its_header() {
        let mut bytes = Vec::new();
        let image = DynamicImage::new_luma8(20_000, 1);
        image
            .write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)
            .expect("an image");
        assert!(thumbnail(&bytes.into(), "png").is_err());
    }
}
