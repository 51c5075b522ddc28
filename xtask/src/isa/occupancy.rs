//! Computes how many waves a SIMD of RDNA4 holds.
//!
//! RADV's statistic "Subgroups per SIMD" gives the same figure, but it is wrong for RDNA4: the null device of Mesa 25.0 counts 1,024
//! registers for a SIMD of gfx12, where the card and Mesa's compiler have 1,536. For navi31, whose SIMDs have as many registers, the
//! statistic and this file differ only where LDS is the limit, because the driver rounds up: for workgroups of 5 waves with 16 KiB it
//! gives 11 waves, and this file gives 10.

/// Vector registers of a SIMD for waves of 32 lanes.
const REGISTERS: u32 = 1_536;
/// Vector registers that are given out at a time.
const GRANULE: u32 = 24;
/// Bytes of shared memory (LDS) of a work group processor.
const LDS_BYTES: u32 = 128 << 10;
/// Bytes of shared memory that are given out at a time.
const LDS_GRANULE: u32 = 1 << 10;
/// SIMDs of a work group processor.
const SIMDS: u32 = 4;
/// The most waves that a SIMD holds.
const SLOTS: u32 = 16;

/// The number of waves of 32 lanes that fit on a SIMD at once. A wave takes `vgprs` registers; its workgroup has `workgroup_size`
/// threads and takes `lds_bytes` bytes of shared memory.
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
