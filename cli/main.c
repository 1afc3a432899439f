#include <samebits/samebits.h>

#include <stdio.h>

int main(void)
{
    puts(samebits_version());
    return 0;
}
