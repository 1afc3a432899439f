cd /tmp/t/mb
for i in 1 2 3; do for v in r192p16 r96p16 r126p16 r192p8 r96p32 r48p16 r96p8 r384p8; do for c in "4096 4096 0 1 512"; do echo $v $c $(LD_LIBRARY_PATH=/tmp/t/$v/lib ./mb $c | cut -d' ' -f1-4); done; done; done
