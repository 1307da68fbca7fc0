use dflash_tensor::{BackendError, Format, Part, PartData};

use super::{BLOCK, Kind, planes, super_block};

/// The file's side of packing: units of rows as the packed form wants them.
pub(super) enum Source<'a> {
    /// Floats and GGUF blocks.
    Plain { bytes: &'a [u8], row: usize, unit: usize, repack: Repack },
    /// MLX affine.
    Affine { elements: &'a [u8], scales: &'a [u8], biases: &'a [u8], row: usize, kind: Kind },
}

/// Turns a unit of the file into one of the packed form.
type Repack = fn(&[u8], &mut [u8]);

impl<'a> Source<'a> {
    /// The bytes of `part`, whose lengths are checked.
    pub(super) fn of(part: &Part<'a>) -> Result<Self, BackendError> {
        let (format, row) = (part.format, part.format.row_bytes(part.cols));
        let unsupported = BackendError::UnsupportedFormat(format);
        match (part.data, format) {
            (PartData::Plain(bytes), _) if !matches!(format, Format::Affine { .. }) => {
                Ok(Self::Plain { bytes, row, unit: format.block_bytes(), repack: repack(format) })
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
            Self::Plain { bytes, row, unit: width, repack } => {
                repack(&bytes[index * row + unit * width..], out)
            }
            Self::Affine { elements, scales, biases, row, kind } => {
                let (width, file_unit) = (kind.scale_bytes(), kind.unit_bytes() - kind.head_bytes());
                let units = row / file_unit;
                let (head, target) = out.split_at_mut(kind.head_bytes());
                affine_elements(
                    kind.bits(),
                    &elements[index * row + unit * file_unit..][..file_unit],
                    target,
                );
                let scale_at = (index * units + unit) * width;
                head[..width].copy_from_slice(&scales[scale_at..][..width]);
                head[width..].copy_from_slice(&biases[scale_at..][..width]);
            }
        }
    }
}

fn repack(format: Format) -> Repack {
    match format {
        Format::Q5_0 => five_bits::<2>,
        Format::Q5_1 => five_bits::<4>,
        Format::Q2K => super_block::q2k,
        Format::Q3K => super_block::q3k,
        Format::Q4K => super_block::q4k,
        Format::Q5K => super_block::q5k,
        Format::Q6K => super_block::q6k,
        // Units as they stand.
        _ => |file, out| out.copy_from_slice(&file[..out.len()]),
    }
}

/// Scale and minimum in `HEAD` bytes, the fifth bits in four, the nibbles.
fn five_bits<const HEAD: usize>(file: &[u8], unit: &mut [u8]) {
    let (head, target) = unit.split_at_mut(HEAD);
    head.copy_from_slice(&file[..HEAD]);
    let bits = u32::from_le_bytes(std::array::from_fn(|i| file[HEAD + i]));
    let nibbles = &file[HEAD + 4..][..BLOCK / 2];
    let nibble = |i: usize| nibbles[i % 16] >> (i / 16 * 4) & 15;
    planes::pack(5, &std::array::from_fn(|i| nibble(i) | ((bits >> i & 1) as u8) << 4), target);
}

/// Blocks of a stream of `bits`-wide elements; those of eight bits become `q - 128`.
fn affine_elements(bits: u8, file: &[u8], unit: &mut [u8]) {
    match bits {
        2 => stream::<2>(file, unit),
        3 => stream::<3>(file, unit),
        4 => stream::<4>(file, unit),
        5 => stream::<5>(file, unit),
        6 => stream::<6>(file, unit),
        _ => stream::<8>(file, unit),
    }
}

/// Eight elements fill as many bytes as one has bits.
fn stream<const BITS: usize>(file: &[u8], unit: &mut [u8]) {
    let flip = if BITS == 8 { 0x80 } else { 0 };
    for (target, source) in unit.chunks_exact_mut(4 * BITS).zip(file.chunks_exact(4 * BITS)) {
        let mut elements = [0; BLOCK];
        for (eight, source) in elements.as_chunks_mut::<8>().0.iter_mut().zip(source.as_chunks::<BITS>().0) {
            let mut word = [0; 8];
            word[..BITS].copy_from_slice(source);
            let word = u64::from_le_bytes(word);
            *eight = std::array::from_fn(|i| (word >> (i * BITS)) as u8 & u8::MAX >> (8 - BITS) ^ flip);
        }
        planes::pack(BITS as u8, &elements, target);
    }
}
