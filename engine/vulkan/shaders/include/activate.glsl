/* What is made of a gate and its up: SwiGLU, or with the includer's CLAMP gpt-oss's form of it. */
float activate(float g, float u)
{
    if (CLAMP) {
        g = min(g, 7.0);
        u = clamp(u, -7.0, 7.0);
        return (u + 1.0) * g * sigmoid(1.702 * g);
    }
    return g * sigmoid(g) * u;
}
