# An icon as a data: address within double quotes; the stroke is lighter than the files say, as all icons of the page are drawn.
s/%/%25/g
s/#/%23/g
s/"/'/g
s/stroke-width='2'/stroke-width='1.75'/
