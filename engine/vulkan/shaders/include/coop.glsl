/* Matrix units: 16x16x16 products of halves with f32 sums, one subgroup each. The three sides are constants of their own, so that
 * the three uses are three types: NV's form, which this is written in, is changed to KHR's by them (device/khr_matrices.h). */
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

layout(constant_id = SPEC_MATRIX_M) const uint SIDE_M = MATRIX_SIDE;
layout(constant_id = SPEC_MATRIX_N) const uint SIDE_N = MATRIX_SIDE;
layout(constant_id = SPEC_MATRIX_K) const uint SIDE_K = MATRIX_SIDE;
#define MatrixA fcoopmatNV<16, gl_ScopeSubgroup, SIDE_M, SIDE_K>
#define MatrixB fcoopmatNV<16, gl_ScopeSubgroup, SIDE_K, SIDE_N>
#define MatrixC fcoopmatNV<32, gl_ScopeSubgroup, SIDE_M, SIDE_N>
