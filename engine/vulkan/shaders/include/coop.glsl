/* Matrix units: 16x16x16 products of halves with f32 sums, one subgroup each. */
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

#define MatrixA fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define MatrixB fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define MatrixC fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>
