//! The cooperative matrices that a device multiplies.

use std::fmt;

use ash::vk;

/// What the elements of a cooperative matrix are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixElement {
    /// IEEE 754 half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE 754 single precision.
    F32,
    /// Signed bytes.
    S8,
    /// Unsigned bytes.
    U8,
    /// Signed 32-bit integers.
    S32,
    /// Unsigned 32-bit integers.
    U32,
    /// Another type: a `VkComponentTypeKHR`.
    Other(i32),
}

impl fmt::Display for MatrixElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F16 => f.write_str("f16"),
            Self::Bf16 => f.write_str("bf16"),
            Self::F32 => f.write_str("f32"),
            Self::S8 => f.write_str("s8"),
            Self::U8 => f.write_str("u8"),
            Self::S32 => f.write_str("s32"),
            Self::U32 => f.write_str("u32"),
            Self::Other(raw) => write!(f, "type {raw}"),
        }
    }
}

impl MatrixElement {
    fn new(raw: vk::ComponentTypeKHR) -> Self {
        match raw {
            vk::ComponentTypeKHR::FLOAT16 => Self::F16,
            vk::ComponentTypeKHR::FLOAT32 => Self::F32,
            vk::ComponentTypeKHR::SINT8 => Self::S8,
            vk::ComponentTypeKHR::UINT8 => Self::U8,
            vk::ComponentTypeKHR::SINT32 => Self::S32,
            vk::ComponentTypeKHR::UINT32 => Self::U32,
            // `VK_COMPONENT_TYPE_BFLOAT16_KHR`.
            other if other.as_raw() == 1_000_141_000 => Self::Bf16,
            other => Self::Other(other.as_raw()),
        }
    }
}

/// A product that a subgroup computes with cooperative matrices: `[m, k]` times `[k, n]`, added to `[m, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixShape {
    /// Rows of the first matrix and of the result.
    pub m: u32,
    /// Columns of the second matrix and of the result.
    pub n: u32,
    /// Columns of the first matrix, rows of the second.
    pub k: u32,
    /// Elements of the first matrix.
    pub a: MatrixElement,
    /// Elements of the second matrix.
    pub b: MatrixElement,
    /// Elements of the result, and of what the product is added to.
    pub result: MatrixElement,
}

impl MatrixShape {
    /// The shape, if it has the scope of a subgroup and does not saturate.
    pub(super) fn new(raw: &vk::CooperativeMatrixPropertiesKHR<'_>) -> Option<Self> {
        let usable = raw.scope == vk::ScopeKHR::SUBGROUP
            && raw.saturating_accumulation == vk::FALSE
            && raw.c_type == raw.result_type;
        usable.then(|| Self {
            m: raw.m_size,
            n: raw.n_size,
            k: raw.k_size,
            a: MatrixElement::new(raw.a_type),
            b: MatrixElement::new(raw.b_type),
            result: MatrixElement::new(raw.result_type),
        })
    }
}
