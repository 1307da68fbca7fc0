use dflash_tensor::{BackendError, Format, Part, PartData};

use super::Kind;

/// The file's side of packing: units of rows as the packed form wants them.
pub(super) enum Source<'a> {
    /// Floats and GGUF blocks, which are units as they stand.
    Plain { bytes: &'a [u8], row: usize, unit: usize },
    /// MLX affine.
    Affine { elements: &'a [u8], scales: &'a [u8], biases: &'a [u8], row: usize, kind: Kind },
}

impl<'a> Source<'a> {
    /// The bytes of `part`, whose lengths are checked.
    pub(super) fn of(part: &Part<'a>) -> Result<Self, BackendError> {
        let (format, row) = (part.format, part.format.row_bytes(part.cols));
        let unsupported = BackendError::UnsupportedFormat(format);
        match (part.data, format) {
            (PartData::Plain(bytes), _) if !matches!(format, Format::Affine { .. }) => {
                Ok(Self::Plain { bytes, row, unit: format.block_bytes() })
            }
            (PartData::Affine { elements, scales, biases }, Format::Affine { .. }) => {
                let kind = Kind::of(format).ok_or(unsupported)?;
                Ok(Self::Affine { elements, scales, biases, row, kind })
            }
            _ => Err(unsupported),
        }
    }

    /// Writes unit `unit` of row `index` of the file; of floats as many as fill `out`.
    pub(super) fn read(&self, index: usize, unit: usize, out: &mut [u8]) {
        match *self {
            Self::Plain { bytes, row, unit: width } => {
                out.copy_from_slice(&bytes[index * row + unit * width..][..out.len()]);
            }
            Self::Affine { elements, scales, biases, row, kind } => {
                let (width, file_unit) = (kind.scale_bytes(), kind.element_bytes());
                let units = row / file_unit;
                let (head, target) = out.split_at_mut(kind.head_bytes());
                affine_elements(kind, &elements[index * row + unit * file_unit..][..file_unit], target);
                let scale_at = (index * units + unit) * width;
                head[..width].copy_from_slice(&scales[scale_at..][..width]);
                head[width..].copy_from_slice(&biases[scale_at..][..width]);
            }
        }
    }
}

fn affine_elements(kind: Kind, file: &[u8], unit: &mut [u8]) {
    if matches!(kind, Kind::AffineByte { .. }) {
        // Signed: q - 128 in two's complement.
        return unit.iter_mut().zip(file).for_each(|(target, &byte)| *target = byte ^ 0x80);
    }
    for (target, source) in unit.chunks_exact_mut(16).zip(file.chunks_exact(16)) {
        let nibble = |element: usize| source[element / 2] >> (element % 2 * 4) & 15;
        // As in GGUF: elements 0..16 in the low halves, 16..32 in the high ones.
        target.iter_mut().enumerate().for_each(|(i, byte)| *byte = nibble(i) | nibble(i + 16) << 4);
    }
}
