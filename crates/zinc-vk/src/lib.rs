//! Vulkan compute on one timeline: device choice, memory, recordings, queues and timeline points.
