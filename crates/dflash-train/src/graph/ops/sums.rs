//! Sums over rows, each in sixteen lanes, so that the compiler may use vectors; the order is fixed.

const LANES: usize = 16;

/// The sum of products.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// The sum.
pub fn sum(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value);
    }
    sums.iter().sum::<f32>() + rest.iter().sum::<f32>()
}

/// The largest value, minus infinity where there is none.
pub fn largest(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut most = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        most.iter_mut()
            .zip(chunk)
            .for_each(|(most, &value)| *most = if value > *most { value } else { *most });
    }
    most.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max)
}
