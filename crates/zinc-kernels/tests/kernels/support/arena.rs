//! Arrays on the device, each between two guard zones.
//!
//! The pattern of the guards is a NaN as f32 and as f16, so that a kernel that reads beyond an array poisons its result, and one that
//! writes beyond it is caught after the run. Outputs start as the same pattern: an element that is never written stays NaN.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;
use zinc_kernels::Dispatch;
use zinc_kernels::step::{Lane, Row, Rows, StepState};
use zinc_vk::{Access, Buffer, Placement, RecordingBuilder};

use super::Gpu;
use super::pages::{LANE, Pages};

/// Bytes of guard on each side of an array; also what arrays are aligned to.
const GUARD_BYTES: usize = 256;
/// Every 16 bits of a guard and of an output that was never written.
const PATTERN: u16 = 0x7fa5;

/// A byte of a place that nothing may use: with its like a NaN as f32 and as f16.
pub(crate) const GAP: u8 = 0xff;

/// What a launch does: its shader reads and writes, and the device may read how many workgroups it has.
const LAUNCH: Access = Access::SHADER_READ.union(Access::SHADER_WRITE).union(Access::INDIRECT_READ);

/// The arrays of one test case.
pub(crate) struct Arena {
    pub(crate) gpu: &'static Gpu,
    arrays: Vec<Allocation>,
}

/// A handle to an array of an [`Arena`].
#[derive(Debug)]
pub(crate) struct Array<T> {
    /// Address of the first element, for a kernel.
    pub(crate) address: u64,
    /// Elements.
    pub(crate) len: usize,
    index: usize,
    element: PhantomData<T>,
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Array<T> {}

impl<T> Array<T> {
    /// The array as the operand of a step of one row.
    pub(crate) fn row(self) -> Rows {
        Rows::one(self.address)
    }
}

struct Allocation {
    buffer: Arc<Buffer>,
    initial: Vec<u8>,
    role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A kernel must leave it alone.
    Input,
    /// A kernel may write it.
    Output,
    /// A kernel may write it; what it holds afterwards is its own matter.
    Scratch,
}

impl Arena {
    pub(crate) fn new() -> Self {
        Self { gpu: Gpu::get(), arrays: Vec::new() }
    }

    /// An array that kernels only read.
    pub(crate) fn input<T: Pod>(&mut self, values: &[T]) -> Array<T> {
        self.add(bytemuck::cast_slice(values), Role::Input)
    }

    /// An array of NaN that kernels write.
    pub(crate) fn output<T: Pod>(&mut self, len: usize) -> Array<T> {
        let bytes = pattern(len * size_of::<T>());
        self.add(&bytes, Role::Output)
    }

    /// An array that kernels read and write.
    pub(crate) fn in_out<T: Pod>(&mut self, values: &[T]) -> Array<T> {
        self.add(bytemuck::cast_slice(values), Role::Output)
    }

    /// An array that kernels keep notes in.
    pub(crate) fn scratch<T: Pod>(&mut self, values: &[T]) -> Array<T> {
        self.add(bytemuck::cast_slice(values), Role::Scratch)
    }

    /// A step state that kernels only read.
    pub(crate) fn state(&mut self, state: impl Into<StepState>) -> u64 {
        self.input(&[state.into()]).address
    }

    /// A step state that kernels only read, whose only lane has these pages: with the tables of pages behind it, if there are any.
    pub(crate) fn state_with_pages(&mut self, state: impl Into<StepState>, pages: &Pages) -> u64 {
        let mut state = state.into();
        if pages.is_straight() {
            return self.state(state);
        }
        state.listed[0] = LANE;
        for row in &mut state.rows[..state.row_count as usize] {
            row.lane = LANE;
        }
        let tables = pages.tables();
        let bytes = [bytemuck::bytes_of(&state), bytemuck::cast_slice(&tables)].concat();
        self.input(&bytes).address
    }

    /// A step state that kernels only read, of a step in which each of these lanes has one row.
    pub(crate) fn state_of_lanes(&mut self, lanes: &[Lane]) -> u64 {
        let mut state = StepState {
            row_count: lanes.len() as u32,
            lane_count: lanes.len() as u32,
            lanes: self.input(lanes).address,
            ..StepState::default()
        };
        for (number, lane) in (0..).zip(lanes) {
            state.listed[number as usize] = number;
            let Lane { token, position, .. } = *lane;
            state.rows[number as usize] = Row { offset: 0, token, position, lane: number };
        }
        self.state(state)
    }

    fn add<T>(&mut self, bytes: &[u8], role: Role) -> Array<T> {
        let buffer = self.buffer_of("test array", &guarded(bytes));
        let array = Array {
            address: buffer.address() + GUARD_BYTES as u64,
            len: bytes.len() / size_of::<T>(),
            index: self.arrays.len(),
            element: PhantomData,
        };
        self.arrays.push(Allocation { buffer, initial: bytes.to_vec(), role });
        array
    }

    /// A buffer that holds the bytes.
    fn buffer_of(&self, name: &str, bytes: &[u8]) -> Arc<Buffer> {
        let buffer = Buffer::new(&self.gpu.device, name, bytes.len() as u64, Placement::Readback)
            .unwrap_or_else(|error| panic!("{name} of {} bytes: {error}", bytes.len()));
        buffer.write(0, bytes);
        buffer
    }

    /// Runs the launches in order, each seeing what those before it wrote.
    ///
    /// # Panics
    /// If an input or a guard has changed afterwards, or as [`Gpu::submit`].
    pub(crate) fn run(&self, launches: &[Dispatch]) {
        self.submit(|recording| {
            for (index, launch) in launches.iter().enumerate() {
                if index > 0 {
                    recording.barrier(Access::SHADER_WRITE, LAUNCH);
                }
                self.gpu.record(recording, launch);
            }
        });
        let names: Vec<_> = launches.iter().map(|launch| launch.kernel.name).collect();
        self.check(&format!("{names:?}"));
    }

    /// Runs the launch `runs` times in one submission, each time from what the arrays were made with. Returns what each run left in the
    /// outputs and their guards, run after run.
    ///
    /// # Panics
    /// As [`Arena::run`]; inputs, and the guards of what is not an output, are looked at after the last run only.
    pub(crate) fn run_repeatedly(&self, launch: &Dispatch, runs: usize) -> Vec<u8> {
        let writable = || self.arrays.iter().filter(|array| array.role != Role::Input);
        let outputs = || self.arrays.iter().filter(|array| array.role == Role::Output);
        let starts: Vec<_> =
            writable().map(|array| self.buffer_of("what an array starts with", &guarded(&array.initial))).collect();
        let bytes_of_run: u64 = outputs().map(|array| array.buffer.size()).sum();
        let mut left = vec![0; bytes_of_run as usize * runs];
        let results = self.buffer_of("what the outputs hold after each run", &left);
        self.submit(|recording| {
            let mut at = 0;
            for _ in 0..runs {
                for (array, start) in writable().zip(&starts) {
                    recording.copy(start, 0, &array.buffer, 0, start.size());
                }
                recording.barrier(Access::TRANSFER_WRITE, LAUNCH);
                self.gpu.record(recording, launch);
                recording.barrier(Access::SHADER_WRITE, Access::TRANSFER_READ | Access::TRANSFER_WRITE);
                for array in outputs() {
                    recording.copy(&array.buffer, 0, &results, at, array.buffer.size());
                    at += array.buffer.size();
                }
                // The next run's copies overwrite what these read.
                recording.barrier(Access::TRANSFER_READ, Access::TRANSFER_WRITE);
            }
        });
        self.check(launch.kernel.name);
        results.read(0, &mut left);
        left
    }

    fn submit(&self, record: impl FnOnce(&mut RecordingBuilder)) {
        self.gpu.submit(|recording| {
            // A launch that a test no longer waits for still runs: its arrays must not become another test's.
            for array in &self.arrays {
                recording.keep(array.buffer.clone());
            }
            record(recording);
        });
    }

    /// Panics if an input or a guard has changed.
    fn check(&self, launches: &str) {
        for (index, array) in self.arrays.iter().enumerate() {
            let bytes = array.checked_bytes(|place| format!("{launches} wrote {place} array {index}"));
            assert!(array.role != Role::Input || bytes == array.initial, "{launches} changed input array {index}");
        }
    }

    /// What the array holds now.
    pub(crate) fn read<T: Pod>(&self, array: Array<T>) -> Vec<T> {
        values(&self.bytes(array.index))
    }

    /// Everything that the outputs hold now, as bytes.
    pub(crate) fn outputs(&self) -> Vec<Vec<u8>> {
        (0..self.arrays.len()).filter(|&i| self.arrays[i].role == Role::Output).map(|i| self.bytes(i)).collect()
    }

    fn bytes(&self, index: usize) -> Vec<u8> {
        self.arrays[index].checked_bytes(|place| format!("something wrote {place} array {index}"))
    }
}

impl Allocation {
    /// The content; panics with what `complaint` makes of the place where a guard has changed.
    fn checked_bytes(&self, complaint: impl Fn(&str) -> String) -> Vec<u8> {
        let mut guarded = vec![0; 2 * GUARD_BYTES + self.initial.len()];
        self.buffer.read(0, &mut guarded);
        let guard = pattern(GUARD_BYTES);
        let (before, rest) = guarded.split_at(GUARD_BYTES);
        let (content, after) = rest.split_at(self.initial.len());
        assert!(before == guard, "{}", complaint("before"));
        assert!(after == guard, "{}", complaint("after"));
        content.to_vec()
    }
}

/// The bytes between two guards.
fn guarded(bytes: &[u8]) -> Vec<u8> {
    let guard = pattern(GUARD_BYTES);
    [&guard, bytes, &guard].concat()
}

fn pattern(bytes: usize) -> Vec<u8> {
    PATTERN.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

/// Bytes of any alignment as values.
pub(crate) fn values<T: Pod>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}
