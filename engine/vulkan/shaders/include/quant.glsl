/* Chooses the weight format of a variant. A format gives
 *   struct Packed                      the raw words of CHUNK columns of one row
 *   Packed packed_load(Planes, index)  index = row * chunks per row + chunk
 *   void packed_decode(Packed, out vec4 code[8], out float scale, out float offset)
 *                                      w = scale * code + offset, columns in order
 *   HAS_OFFSET                         0: offset is 0; a constant, perhaps a specialized one
 * Planes, the addresses of a matrix's parts, is declared in interface.h. */
/* Split experts, some on the device and some in host memory (device_model.h): `data` is then the address of the layer's table,
 * for each expert the planes of its record (gate's rows, then up's) and of its down matrix. */
layout(constant_id = SPEC_SPLIT_EXPERTS) const bool SPLIT_EXPERTS = false;
/* The table's `data` of an expert without a slot is 0: the processor computes it (add_rows). */
layout(constant_id = SPEC_OFFLOADS_MISSES) const bool OFFLOADS_MISSES = false;
layout(buffer_reference, std430, buffer_reference_align = 8) buffer ExpertTable { Planes at[]; };
Planes expert_planes(Planes w, uint expert, uint which) /* which: 0 gate and up, 1 down */
{
    if (SPLIT_EXPERTS) /* not by ?:, for which glslang stores a struct of the buffer's layout as one without: no valid SPIR-V */
        w = ExpertTable(w.data).at[2 * expert + which];
    return w;
}
/* First row of an expert's matrix in its planes. */
uint expert_row(uint expert, uint rows)
{
    return SPLIT_EXPERTS ? 0 : expert * rows;
}
layout(constant_id = SPEC_BITS) const uint BITS = 4;        /* affine: bits of a code */
layout(constant_id = SPEC_GROUP_CHUNKS) const uint GROUP_CHUNKS = 1; /* affine: chunks that share a scale */
layout(constant_id = SPEC_SCALE_TYPE) const uint SCALE_TYPE = 0;  /* affine: 0 bf16, 1 f16, 2 f32 */

#if defined(W_F32)
#include "quant_f32.glsl"
#elif defined(W_F16)
#include "quant_f16.glsl"
#elif defined(W_BF16)
#include "quant_bf16.glsl"
#elif defined(W_MXFP4)
#include "quant_mxfp4.glsl"
#elif defined(W_AFFINE)
#include "quant_affine.glsl"
#elif defined(W_BLOCK)
#include "quant_block.glsl"
#endif
