//! How many waves a SIMD of RDNA4 holds.
//!
//! RADV says so too ("Subgroups per SIMD"), but its null device counts 1,024 registers a SIMD for gfx12 (Mesa 25.0), where the
//! card, and the compiler itself, have 1,536. For navi31, which has as many, driver and this file agree, but
//! that the driver rounds up where LDS is the limit: a workgroup of 5 waves with 16 KiB is 11 waves there and 10 here.

/// Vector registers of a SIMD for waves of 32 lanes.
const REGISTERS: u32 = 1_536;
/// In how many at a time they are given out.
const GRANULE: u32 = 24;
/// Shared memory of a work group processor, and in what pieces it is given out.
const LDS_BYTES: u32 = 128 << 10;
const LDS_GRANULE: u32 = 1 << 10;
/// SIMDs of a work group processor.
const SIMDS: u32 = 4;
/// Waves that a SIMD can keep.
const SLOTS: u32 = 16;

/// Waves of 32 lanes that fit on a SIMD at once, given what one of them takes of registers, and its workgroup of LDS.
pub(super) fn waves(vgprs: u32, lds_bytes: u32, workgroup_size: u32) -> u32 {
    let by_registers = REGISTERS / vgprs.max(1).next_multiple_of(GRANULE);
    let by_lds = match lds_bytes.next_multiple_of(LDS_GRANULE) {
        0 => SLOTS,
        lds => (LDS_BYTES / lds * workgroup_size.div_ceil(32)).div_ceil(SIMDS),
    };
    SLOTS.min(by_registers).min(by_lds)
}

#[cfg(test)]
mod tests {
    use super::waves;

    #[test]
    fn registers_shared_memory_and_slots_limit_the_waves() {
        assert_eq!(waves(24, 0, 32), 16, "slots");
        assert_eq!(waves(96, 0, 128), 16, "the most registers that fill every slot");
        assert_eq!(waves(97, 0, 128), 12, "one register more is a granule more");
        assert_eq!(waves(256, 0, 128), 5, "256 registers take 264");
        assert_eq!(waves(256, 8 << 10, 32), 4, "workgroups of one wave with 8 KiB each");
        assert_eq!(waves(48, 16 << 10, 256), 16, "the same 16 KiB for eight waves");
        assert_eq!(waves(24, 1, 32), 16, "128 pieces for 64 slots");
    }
}
