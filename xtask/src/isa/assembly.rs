//! Counts instructions in the disassembly that RADV prints. It knows GFX10 and, where loads have other names, GFX11 and later.

use anyhow::bail;
use serde::Serialize;

/// How many loads of each width there are, by the bits that each lane loads.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Loads {
    pub(super) b128: u32,
    pub(super) b96: u32,
    pub(super) b64: u32,
    pub(super) b32: u32,
    pub(super) b16: u32,
    pub(super) b8: u32,
}

/// How often each kind of instruction stands in the code, loops counted once.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// Loads by each lane, by address or through descriptors.
    pub(super) loads: Loads,
    /// How many of `loads` go through descriptors.
    pub(super) buffer_loads: u32,
    /// Loads that the subgroup makes as a whole.
    pub(super) scalar_loads: u32,
    /// Dot products.
    pub(super) dot: u32,
    /// Matrix products.
    pub(super) wmma: u32,
    /// Instructions that issue two operations together.
    pub(super) dual: u32,
}

/// Counts the instructions of a disassembly.
///
/// # Errors
/// A load whose width is not known here.
pub(super) fn count(assembly: &str) -> anyhow::Result<Counts> {
    let mut counts = Counts::default();
    for mnemonic in assembly.lines().filter_map(mnemonic) {
        if let Some(kind) = mnemonic.strip_prefix("global_load_").or(mnemonic.strip_prefix("flat_load_")) {
            *width(&mut counts.loads, mnemonic, kind)? += 1;
        } else if let Some(kind) = mnemonic.strip_prefix("buffer_load_") {
            *width(&mut counts.loads, mnemonic, kind)? += 1;
            counts.buffer_loads += 1;
        } else if mnemonic.starts_with("s_load_") || mnemonic.starts_with("s_buffer_load_") {
            counts.scalar_loads += 1;
        } else if mnemonic.starts_with("v_dot") {
            counts.dot += 1;
        } else if mnemonic.starts_with("v_wmma_") || mnemonic.starts_with("v_swmmac_") {
            counts.wmma += 1;
        } else if mnemonic.starts_with("v_dual_") {
            counts.dual += 1;
        }
    }
    Ok(counts)
}

/// The instruction of a line; `None` for labels and empty lines.
fn mnemonic(line: &str) -> Option<&str> {
    let word = line.split(';').next()?.split_whitespace().next()?;
    word.starts_with(|c: char| c.is_ascii_lowercase()).then_some(word)
}

/// The count that a load of this kind belongs to.
fn width<'a>(loads: &'a mut Loads, mnemonic: &str, kind: &str) -> anyhow::Result<&'a mut u32> {
    // `d16` and `hi` say which half of a register is written, `tr` that the result is transposed. Neither changes the width.
    let kind = kind.trim_start_matches("tr_").trim_start_matches("d16_").trim_start_matches("hi_");
    Ok(match kind.trim_end_matches("_hi").trim_end_matches("_d16") {
        "b128" | "dwordx4" => &mut loads.b128,
        "b96" | "dwordx3" => &mut loads.b96,
        "b64" | "dwordx2" => &mut loads.b64,
        "b32" | "dword" => &mut loads.b32,
        "b16" | "u16" | "i16" | "ushort" | "sshort" | "short" => &mut loads.b16,
        "u8" | "i8" | "ubyte" | "sbyte" => &mut loads.b8,
        _ => bail!("{mnemonic}: a load of a width that xtask/src/isa/assembly.rs does not know"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_once_a_line() {
        let counts = count(
            "BB0:\n\
             \ts_load_b64 s[0:1], s[2:3], 0x30                         ; f4000001 f8000030\n\
             \tglobal_load_b128 v[4:7], v2, s[4:5]                     ; ee05c004 00000004 00000002\n\
             \tglobal_load_u16 v1, v2, s[4:5] offset:2                 ; ee05c004\n\
             \tbuffer_load_b32 v0, v1, s[0:3], 0 offen                 ; ee05c004\n\
             \ts_wait_loadcnt 0x0                                      ; bfc00000\n\
             \tv_dual_mul_f32 v1, v2, v3 :: v_dual_add_f32 v4, v5, v6  ; c8c00000\n\
             \tv_dot4_i32_iu8 v0, v1, v2, v0 neg_lo:[1,1,0]            ; cc164000\n\
             \tv_wmma_f32_16x16x16_f16 v[0:7], v[8:11], v[12:15], v[0:7] ; cc404000\n\
             \tds_load_b128 v[0:3], v4                                 ; dbfc0000\n\
             \tglobal_store_b128 v0, v[1:4], s[0:1]                    ; ee074000\n\
             \n",
        )
        .unwrap();
        let loads = Loads { b128: 1, b32: 1, b16: 1, ..Loads::default() };
        assert_eq!(counts, Counts { loads, buffer_loads: 1, scalar_loads: 1, dot: 1, wmma: 1, dual: 1 });
    }

    #[test]
    fn old_and_new_names_of_a_width_are_the_same() {
        let new = "global_load_b128\nglobal_load_b96\nglobal_load_b64\nglobal_load_b32\nglobal_load_d16_hi_b16\n\
                   global_load_d16_b16\nglobal_load_u16\nglobal_load_u8\nglobal_load_d16_u8\nglobal_load_tr_b128\n";
        let old = "global_load_dwordx4\nglobal_load_dwordx3\nglobal_load_dwordx2\nglobal_load_dword\n\
                   global_load_short_d16_hi\nglobal_load_short_d16\nglobal_load_ushort\nglobal_load_ubyte\n\
                   global_load_ubyte_d16\nflat_load_dwordx4\n";
        let expected = Loads { b128: 2, b96: 1, b64: 1, b32: 1, b16: 3, b8: 2 };
        assert_eq!(count(new).unwrap().loads, expected);
        assert_eq!(count(old).unwrap().loads, expected);
    }

    #[test]
    fn a_load_of_unknown_width_is_named() {
        let error = count("\tglobal_load_b48 v0, v1, s[0:1] ; 00").unwrap_err().to_string();
        assert!(error.starts_with("global_load_b48"), "{error}");
    }
}
