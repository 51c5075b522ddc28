//! Metadata values.

use std::fmt;

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are the types that the format names")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// An array of metadata values of one type.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are the types that the format names")]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Vec<String>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
    Array(Vec<Self>),
}

impl Value {
    /// The value as an integer, whatever its width; `None` for anything that is not an integer.
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(value) => value.into(),
            Self::I8(value) => value.into(),
            Self::U16(value) => value.into(),
            Self::I16(value) => value.into(),
            Self::U32(value) => value.into(),
            Self::I32(value) => value.into(),
            Self::U64(value) => value.into(),
            Self::I64(value) => value.into(),
            Self::F32(_) | Self::F64(_) | Self::Bool(_) | Self::String(_) | Self::Array(_) => {
                return None;
            }
        })
    }

    /// The value as an array; `None` for a scalar or a string.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The type as people write it, e.g. `u32` or `an array of 3 i32`.
    pub fn type_name(&self) -> String {
        match self {
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::F32(_) => "f32",
            Self::Bool(_) => "bool",
            Self::String(_) => "a string",
            Self::Array(array) => {
                return format!("an array of {} {}", array.len(), array.element_name());
            }
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F64(_) => "f64",
        }
        .to_owned()
    }
}

/// Evaluates `$body` for any variant of the [`Array`](crate::gguf::Array) `$array`, with `$values` bound to the variant's vector.
macro_rules! each_array {
    ($array:expr, $values:ident => $body:expr) => {
        match $array {
            $crate::gguf::Array::U8($values) => $body,
            $crate::gguf::Array::I8($values) => $body,
            $crate::gguf::Array::U16($values) => $body,
            $crate::gguf::Array::I16($values) => $body,
            $crate::gguf::Array::U32($values) => $body,
            $crate::gguf::Array::I32($values) => $body,
            $crate::gguf::Array::F32($values) => $body,
            $crate::gguf::Array::Bool($values) => $body,
            $crate::gguf::Array::String($values) => $body,
            $crate::gguf::Array::U64($values) => $body,
            $crate::gguf::Array::I64($values) => $body,
            $crate::gguf::Array::F64($values) => $body,
            $crate::gguf::Array::Array($values) => $body,
        }
    };
}

impl Array {
    /// Number of elements.
    pub fn len(&self) -> usize {
        each_array!(self, values => values.len())
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements as integers, whatever their width; `None` where they are not integers.
    pub fn to_integers(&self) -> Option<Vec<i128>> {
        fn wide<T: Copy + Into<i128>>(values: &[T]) -> Vec<i128> {
            values.iter().map(|&value| value.into()).collect()
        }
        Some(match self {
            Self::U8(values) => wide(values),
            Self::I8(values) => wide(values),
            Self::U16(values) => wide(values),
            Self::I16(values) => wide(values),
            Self::U32(values) => wide(values),
            Self::I32(values) => wide(values),
            Self::U64(values) => wide(values),
            Self::I64(values) => wide(values),
            Self::F32(_) | Self::F64(_) | Self::Bool(_) | Self::String(_) | Self::Array(_) => return None,
        })
    }

    /// The type of the elements as people write it.
    pub fn element_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::F32(_) => "f32",
            Self::Bool(_) => "bool",
            Self::String(_) => "strings",
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F64(_) => "f64",
            Self::Array(_) => "arrays",
        }
    }
}

/// Shows scalars in full, and of arrays the first elements and the length.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U8(value) => value.fmt(f),
            Self::I8(value) => value.fmt(f),
            Self::U16(value) => value.fmt(f),
            Self::I16(value) => value.fmt(f),
            Self::U32(value) => value.fmt(f),
            Self::I32(value) => value.fmt(f),
            Self::F32(value) => value.fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::String(value) => value.fmt(f),
            Self::U64(value) => value.fmt(f),
            Self::I64(value) => value.fmt(f),
            Self::F64(value) => value.fmt(f),
            Self::Array(array) => array.fmt(f),
        }
    }
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 6;
        fn show<T>(
            values: &[T],
            f: &mut fmt::Formatter<'_>,
            show: impl Fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
        ) -> fmt::Result {
            for (i, value) in values.iter().take(SHOWN).enumerate() {
                f.write_str(if i == 0 { "" } else { ", " })?;
                show(value, f)?;
            }
            Ok(())
        }
        f.write_str("[")?;
        match self {
            Self::Array(arrays) => show(arrays, f, fmt::Display::fmt)?,
            _ => each_array!(self, values => show(values, f, fmt::Debug::fmt))?,
        }
        match self.len() {
            ..=SHOWN => f.write_str("]"),
            len => write!(f, ", …] ({len} {})", self.element_name()),
        }
    }
}

macro_rules! from {
    ($($variant:ident: $type:ty),*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
        impl From<Vec<$type>> for Value {
            fn from(values: Vec<$type>) -> Self {
                Self::Array(Array::$variant(values))
            }
        }
    )*};
}

from!(U8: u8, I8: i8, U16: u16, I16: i16, U32: u32, I32: i32, F32: f32, Bool: bool, String: String, U64: u64, I64: i64, F64: f64);

impl From<Vec<Array>> for Value {
    fn from(values: Vec<Array>) -> Self {
        Self::Array(Array::Array(values))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

/// A type of metadata values: its number in the file, and how its values are written, in little endian.
pub(super) trait Element: Sized {
    const ID: u32;
    /// The fewest bytes that one element takes.
    const MIN_BYTES: u64;
    fn write(&self, out: &mut Vec<u8>);
}

macro_rules! number_elements {
    ($($type:ty: $id:literal),*) => {$(
        impl Element for $type {
            const ID: u32 = $id;
            const MIN_BYTES: u64 = size_of::<$type>() as u64;
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

number_elements!(u8: 0, i8: 1, u16: 2, i16: 3, u32: 4, i32: 5, f32: 6, u64: 10, i64: 11, f64: 12);

impl Element for bool {
    const ID: u32 = 7;
    const MIN_BYTES: u64 = 1;
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Element for String {
    const ID: u32 = 8;
    /// A string takes at least the 8 bytes of its length.
    const MIN_BYTES: u64 = 8;
    fn write(&self, out: &mut Vec<u8>) {
        write_str(self, out);
    }
}

pub(super) const ARRAY_ID: u32 = 9;

/// An array within an array is its elements' type, their number and the elements.
impl Element for Array {
    const ID: u32 = ARRAY_ID;
    /// An array takes at least its elements' type (4 bytes) and their number (8 bytes).
    const MIN_BYTES: u64 = 4 + 8;
    fn write(&self, out: &mut Vec<u8>) {
        fn elements<T: Element>(values: &[T], out: &mut Vec<u8>) {
            T::ID.write(out);
            (values.len() as u64).write(out);
            values.iter().for_each(|value| value.write(out));
        }
        each_array!(self, values => elements(values, out));
    }
}

pub(super) fn write_str(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Appends a value to `out` as a GGUF file has it: the number of its type, then the value.
pub(super) fn write_value(value: &Value, out: &mut Vec<u8>) {
    fn scalar<T: Element>(value: &T, out: &mut Vec<u8>) {
        T::ID.write(out);
        value.write(out);
    }
    match value {
        Value::U8(value) => scalar(value, out),
        Value::I8(value) => scalar(value, out),
        Value::U16(value) => scalar(value, out),
        Value::I16(value) => scalar(value, out),
        Value::U32(value) => scalar(value, out),
        Value::I32(value) => scalar(value, out),
        Value::F32(value) => scalar(value, out),
        Value::Bool(value) => scalar(value, out),
        Value::String(value) => scalar(value, out),
        Value::U64(value) => scalar(value, out),
        Value::I64(value) => scalar(value, out),
        Value::F64(value) => scalar(value, out),
        Value::Array(values) => scalar(values, out),
    }
}
