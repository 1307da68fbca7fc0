use std::ops::{Deref, Range};

use candle_core::{CpuStorage, Error, Layout, Result, Storage, Tensor};

/// The values of a contiguous tensor on the CPU.
pub struct Floats<G> {
    storage: G,
    range: Range<usize>,
}

impl<G: Deref<Target = Storage>> Deref for Floats<G> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &*self.storage {
            Storage::Cpu(CpuStorage::F32(values)) => &values[self.range.clone()],
            _ => unreachable!("checked when it was made"),
        }
    }
}

/// The values of a tensor.
pub fn values(tensor: &Tensor) -> Result<Floats<impl Deref<Target = Storage>>> {
    let (storage, layout) = tensor.storage_and_layout();
    let range = range(layout)?;
    match &*storage {
        Storage::Cpu(CpuStorage::F32(_)) => Ok(Floats { storage, range }),
        _ => Err(Error::Msg("a tensor is not in f32 on the CPU".into())),
    }
}

/// The values that an operation was given.
pub fn floats<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    Ok(&storage.as_slice::<f32>()?[range(layout)?])
}

fn range(layout: &Layout) -> Result<Range<usize>> {
    let (start, end) = layout.contiguous_offsets().ok_or(Error::Msg("a tensor is not contiguous".into()))?;
    Ok(start..end)
}
