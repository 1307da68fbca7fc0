/// Instruction set of the kernels. All of them give the same bits; [`Isa::Scalar`] is the oracle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// Portable Rust over fixed eight-lane arrays.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
}

impl Isa {
    /// The best one this machine runs.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
        {
            return Self::Avx2;
        }
        Self::Scalar
    }

    /// Whether this machine runs it.
    pub fn is_available(self) -> bool {
        self == Self::Scalar || self == Self::detect()
    }

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
        }
    }
}
