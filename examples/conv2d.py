"""2-D convolution, stated as a comprehension: out[n, o, y, x] = Σ_{c, i, j} weight[o, c, i, j] · image[n, c, y', x']."""

import tang_verified as tv


def conv2d(image: tv.spec("b 3 h>=3 w>=3"), weight: tv.spec("o 3 3 3")):
    """Stride 1, padding 1."""
    xp = image.__array_namespace__()
    padded = xp.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    h, width = image.shape[2], image.shape[3]
    total = 0.0
    for i in range(3):
        for j in range(3):
            window = padded[:, :, i : i + h, j : j + width]
            total = total + xp.einsum("bchw,oc->bohw", window, weight[:, :, i, j])
    return total


def strided(image: tv.spec("b 4 33 33"), weight: tv.spec("6 2 3 3")):
    """Stride 2, padding 1, dilation 2, two groups."""
    xp = image.__array_namespace__()
    padded = xp.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = []
    for g in range(2):
        total = 0.0
        for i in range(3):
            for j in range(3):
                window = padded[:, 2 * g : 2 * g + 2, 2 * i : 2 * i + 31 : 2, 2 * j : 2 * j + 31 : 2]
                total = total + xp.einsum("bchw,oc->bohw", window, weight[3 * g : 3 * g + 3, :, i, j])
        out.append(total)
    return xp.concat(out, axis=1)
