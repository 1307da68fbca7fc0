use std::sync::OnceLock;

use crate::self_test;

/// Instruction set of the kernels. All of them give the same bits; [`Isa::Scalar`] is the oracle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// Portable Rust over fixed eight-lane arrays.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// The same with AVX-512 (F, BW, VNNI) for products and attention.
    Avx512,
}

impl Isa {
    /// The best one this machine runs. AVX-512 has to reproduce the bits of the oracle first.
    pub fn detect() -> Self {
        match Self::Avx512.is_available() && !Self::avx512_failed() {
            true => Self::Avx512,
            false if Self::Avx2.is_available() => Self::Avx2,
            false => Self::Scalar,
        }
    }

    /// Every one this machine runs, whatever the test at the start says.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Scalar, Self::Avx2, Self::Avx512].into_iter().filter(|isa| isa.is_available())
    }

    /// Whether this machine has AVX-512 and gives other bits with it than the oracle.
    pub fn avx512_failed() -> bool {
        static FAILED: OnceLock<bool> = OnceLock::new();
        *FAILED.get_or_init(|| Self::Avx512.is_available() && !self_test::passes(Self::Avx512))
    }

    /// Whether this machine runs it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}
