//! [`crate::recurrent::kernel`], compiled for these instructions.

use crate::recurrent::kernel::{self, Columns, Taped, WIDTH};
use crate::rows::Norm;

macro_rules! compiled {
    ($(fn $kernel:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            pub(crate) fn $kernel($($argument: $type),*) {
                #[target_feature(enable = "avx2,fma")]
                fn features($($argument: $type),*) {
                    kernel::$kernel($($argument),*);
                }
                // SAFETY: a backend with these kernels exists only where the features do.
                unsafe { features($($argument),*) }
            }
        )*
    };
}

compiled! {
    fn add_product(filter: &[f32], x: &[f32], out: &mut [f32]);
    fn silu(x: &mut [f32]);
    fn unit(x: &mut [f32], scale: f32);
    fn decay(rate: &[f32], bias: &[f32], alpha: &[f32], out: &mut [f32]);
    fn strength(beta: &[f32], out: &mut [f32]);
    fn step(
        state: &mut [Columns],
        keys: (&[f32], &[f32]),
        gates: (f32, f32),
        v: &mut [f32; WIDTH],
        y: &mut [f32; WIDTH]
    );
    fn repeat(state: &mut [Columns], steps: &[Taped<'_>]);
    fn read_out(y: &[f32], norm: Norm<'_>, gate: &[f32], out: &mut [f32]);
    fn gate_sum(bias: Option<&[f32]>, after: &[f32], out: &mut [f32]);
}
