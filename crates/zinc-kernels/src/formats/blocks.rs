//! Blocks of quantised weights as the integers and floats that they hold.

/// A block of 32 elements with a scale of its own: element `i` is `scale * codes[i] + offset`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block32 {
    /// The elements, in multiples of the scale.
    pub codes: [i8; 32],
    /// What the codes are multiplied with.
    pub scale: f32,
    /// What is added to every element; `None` in formats without an offset.
    pub offset: Option<f32>,
}

/// A block of 256 elements in sub-blocks, each with a small integer as its scale: element `i` of sub-block `s` is
/// `scale * scales[s] * codes[i] - minimum_scale * minimums[s]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block256 {
    /// The elements, in multiples of the scale of their sub-block.
    pub codes: [i8; 256],
    /// Elements of a sub-block, 16 or 32.
    pub sub_block: usize,
    /// The scale of the scales.
    pub scale: f32,
    /// The scale of each sub-block, in multiples of `scale`. With sub-blocks of 32 the first eight are in use.
    pub scales: [i8; 16],
    /// What is subtracted from the elements of each sub-block; `None` in formats without minimums.
    pub minimums: Option<Minimums>,
}

/// What is subtracted from the elements of the sub-blocks of a [`Block256`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Minimums {
    /// The scale of the minimums.
    pub scale: f32,
    /// The minimum of each sub-block, in multiples of `scale`. With sub-blocks of 32 the first eight are in use.
    pub minimums: [u8; 16],
}

/// A block of a quantised format.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "blocks are read one at a time and live on the stack")]
pub enum Block {
    /// With a scale for 32 elements.
    Of32(Block32),
    /// With a scale for 256 elements, and small integers for sub-blocks.
    Of256(Block256),
}

impl Block32 {
    /// The elements: each product and each sum is rounded to f32 by itself.
    pub(super) fn elements(&self, out: &mut [f32; 32]) {
        for (out, &code) in out.iter_mut().zip(&self.codes) {
            let product = self.scale * f32::from(code);
            *out = self.offset.map_or(product, |offset| product + offset);
        }
    }
}

impl Block256 {
    /// The elements: each product and each difference is rounded to f32 by itself.
    pub(super) fn elements(&self, out: &mut [f32; 256]) {
        let sub_blocks = out.chunks_exact_mut(self.sub_block).zip(self.codes.chunks_exact(self.sub_block));
        for (sub, (out, codes)) in sub_blocks.enumerate() {
            let scale = self.scale * f32::from(self.scales[sub]);
            let minimum = self.minimums.map(|minimums| minimums.scale * f32::from(minimums.minimums[sub]));
            for (out, &code) in out.iter_mut().zip(codes) {
                let product = scale * f32::from(code);
                *out = minimum.map_or(product, |minimum| product - minimum);
            }
        }
    }
}
